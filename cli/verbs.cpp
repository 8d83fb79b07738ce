#include <array>

#include "cli/verb.h"

namespace ndtrain::cli {
using namespace ndp;

#define VERB(id)                \
  void declare_##id(ArgsSpec&); \
  int run_##id(Context&, const Args&)
VERB(bench_intake);
VERB(bench_labels);
VERB(bench_relabel);
VERB(bench_http);
VERB(bench_upload);
VERB(cache_gc);
VERB(cache_ls);
VERB(cert_init);
VERB(cert_revoke);
VERB(dashboard);
VERB(demo);
VERB(labels_accuracy);
VERB(labels_diff);
VERB(labels_export);
VERB(labels_history);
VERB(labels_import);
VERB(labels_query);
VERB(labels_refine);
VERB(labels_review);
VERB(labels_rm);
VERB(labels_set);
VERB(labels_stats);
VERB(labels_suggest);
VERB(labels_undo);
VERB(model_diff);
VERB(model_ls);
VERB(model_note);
VERB(model_promote);
VERB(model_rm);
VERB(model_rollback);
VERB(model_tag);
VERB(photos_duplicates);
VERB(photos_like);
VERB(photos_restore);
VERB(photos_rm);
VERB(photos_trash);
VERB(plan);
VERB(plan_network);
VERB(plan_train);
VERB(relabel);
VERB(runs_compare);
VERB(runs_ls);
VERB(runs_note);
VERB(runs_show);
VERB(runs_tag);
VERB(finetune);
VERB(job_cancel);
VERB(job_ls);
VERB(job_note);
VERB(job_pause);
VERB(job_resume);
VERB(job_show);
VERB(job_start_now);
VERB(job_submit);
VERB(job_tag);
VERB(pipestore);
VERB(pipestore_serve);
VERB(store_drain);
VERB(store_forget);
VERB(store_ls);
VERB(task_ls);
VERB(task_rm);
VERB(token_ls);
VERB(token_new);
VERB(token_revoke);
VERB(tuner_join);
VERB(tuner_members);
VERB(tuner_move);
VERB(tuner_serve);
VERB(up);
VERB(down);
VERB(backup);
VERB(fsck);
VERB(restore);
#undef VERB

namespace {

constexpr Verb kHere[] = {
    {"demo", "the whole story on drawn photos, in a minute", "DIR", "  ndtrain demo /tmp/demo\n",
     declare_demo, run_demo},
    {"relabel", "label photos into a database", "PHOTOS... -m MODEL --db URL",
     "  ndtrain relabel photos -m runs/flowers --db sqlite:labels.db\n"
     "  ndtrain relabel photos/july/*.jpg --root photos -m runs/flowers --db "
     "sqlite:labels.db\n"
     "  ndtrain relabel photos -m runs/flowers --db sqlite:labels.db --dry-run\n",
     declare_relabel, run_relabel},
    {"photos duplicates", "photos that are almost the same, in groups", "PHOTOS [-m MODEL]",
     "  ndtrain photos duplicates photos\n"
     "  ndtrain photos duplicates photos -m runs/flowers --similarity 0.95\n",
     declare_photos_duplicates, run_photos_duplicates}};

constexpr Verb kRuns[] = {
    {"runs ls", "trainings, what they are called and how good they became", "[DIR...] [options]",
     "  ndtrain runs ls\n"
     "  ndtrain runs ls runs /var/lib/ndtrain/tuner --sort top1 --tag flowers\n",
     declare_runs_ls, run_runs_ls},
    {"runs show", "the settings, the note and the figures of a training", "RUN",
     "  ndtrain runs show runs/flowers\n", declare_runs_show, run_runs_show},
    {"runs compare", "what differs between trainings, and what came of it",
     "RUN RUN... [--html FILE]",
     "  ndtrain runs compare runs/flowers runs/linear\n"
     "  ndtrain runs compare runs/flowers runs/linear runs/slow --html compared.html\n",
     declare_runs_compare, run_runs_compare},
    {"runs note", "say something of a training", "RUN [TEXT] [--name NAME]",
     "  ndtrain runs note runs/flowers 'half the rate, and still no better'\n"
     "  ndtrain runs note runs/flowers --name 'July, without blurred photos'\n",
     declare_runs_note, run_runs_note},
    {"runs tag", "words to find a training by", "RUN +TAG... -TAG...",
     "  ndtrain runs tag runs/flowers +july -to-do\n"
     "  ndtrain runs ls --tag july\n",
     declare_runs_tag, run_runs_tag}};

constexpr Verb kLabels[] = {
    {"labels query", "find labels", "--db URL [options]",
     "  ndtrain labels query --db sqlite:labels.db --label rose --max-score 0.6\n"
     "  ndtrain labels query --db sqlite:labels.db --stale --store attic\n"
     "  ndtrain labels query --db sqlite:labels.db --source human --since $(date -d yesterday "
     "+%s)\n",
     declare_labels_query, run_labels_query},
    {"labels set", "label one photo by hand", "PHOTO CLASS --db URL",
     "  ndtrain labels set july/1.jpg rose --db sqlite:labels.db\n", declare_labels_set,
     run_labels_set},
    {"labels history", "every label a photo ever had", "PHOTO --db URL",
     "  ndtrain labels history july/1.jpg --db sqlite:labels.db\n", declare_labels_history,
     run_labels_history},
    {"labels diff", "what one version says otherwise than another",
     "--from V --to V --db URL [options]",
     "  ndtrain labels diff --from 1 --to in-force --db sqlite:labels.db\n"
     "  ndtrain labels diff --from 1 --to 2 --photos --was rose --is tulip --db "
     "sqlite:labels.db\n",
     declare_labels_diff, run_labels_diff},
    {"labels undo", "withdraw a version's labels; those before it count again",
     "VERSION --db URL [--yes]", "  ndtrain labels undo in-force --db sqlite:labels.db\n",
     declare_labels_undo, run_labels_undo},
    {"labels review", "photos for a person to look at", "--db URL [-n N] [options]",
     "  ndtrain labels review -n 100 --db sqlite:labels.db > answers.csv\n"
     "  ndtrain labels review --answers answers.csv --db sqlite:labels.db\n"
     "  ndtrain labels review -n 20 --ask --db sqlite:labels.db\n",
     declare_labels_review, run_labels_review},
    {"labels refine", "labels that what their photos show contradicts",
     "PHOTOS -m MODEL --db URL [--apply N|SHARE -o FILE]",
     "  ndtrain labels refine photos -m runs/flowers --db sqlite:labels.db\n"
     "  ndtrain labels refine photos -m runs/flowers --db sqlite:labels.db --apply 1% -o was.csv\n"
     "  ndtrain labels import was.csv --db sqlite:labels.db      # takes that back\n",
     declare_labels_refine, run_labels_refine},
    {"labels suggest", "classes for unlabelled photos, from a handful of examples",
     "PHOTOS -m MODEL --db URL",
     "  ndtrain labels suggest photos -m squeezenet.onnx --db sqlite:labels.db\n",
     declare_labels_suggest, run_labels_suggest},
    {"labels accuracy", "how often a version agrees with people and imports",
     "--db URL [--version V]", "  ndtrain labels accuracy --db sqlite:labels.db\n",
     declare_labels_accuracy, run_labels_accuracy},
    {"labels stats", "how many labels there are, by whom", "--db URL",
     "  ndtrain labels stats --db postgresql://ann@db.example.org/labels\n", declare_labels_stats,
     run_labels_stats},
    {"labels import", "take labels from a CSV or JSON file", "FILE --db URL",
     "  ndtrain labels import truth.csv --db sqlite:labels.db\n"
     "  ndtrain labels import people.jsonl --as truth --db sqlite:labels.db\n",
     declare_labels_import, run_labels_import},
    {"labels export", "write current labels as CSV, JSON or Parquet", "--db URL [-o FILE]",
     "  ndtrain labels export --db sqlite:labels.db -o labels.csv\n"
     "  ndtrain labels export --db sqlite:labels.db --label rose --format jsonl\n"
     "  ndtrain labels export --db sqlite:labels.db -o labels.parquet\n",
     declare_labels_export, run_labels_export},
    {"labels rm", "forget a photo and all its labels", "PHOTO --db URL",
     "  ndtrain labels rm july/1.jpg --db sqlite:labels.db\n", declare_labels_rm, run_labels_rm}};

constexpr Verb kRoles[] = {
    {"finetune", "fine-tune over PipeStores: a Tuner for one job",
     "-m MODEL -o OUT [-n STORES] [-r RUNS] [options]",
     "  ndtrain finetune -m squeezenet.onnx -n 2 -r 3 -o out --head linear\n"
     "  ndtrain finetune -m resnet50.onnx -n 4 -p 25258 --listen 0.0.0.0 --ca ca.crt --cert "
     "tuner.crt --key tuner.key -o out\n",
     declare_finetune, run_finetune},
    {"tuner serve", "train on what PipeStores send, job after job", "--state DIR [options]",
     "  ndtrain tuner serve --state /var/lib/ndtrain/tuner\n"
     "  ndtrain tuner serve --listen 0.0.0.0:25258 --state tuner --ca ca.crt --cert tuner.crt "
     "--key tuner.key\n"
     "  ndtrain tuner serve --state tuner --watch rule.toml\n",
     declare_tuner_serve, run_tuner_serve},
    {"tuner join", "train together with a Tuner, when it asks", "--state DIR --tuner HOST:PORT",
     "  ndtrain tuner join --tuner 10.0.0.1:25258 --state /var/lib/ndtrain/member --ca ca.crt "
     "--cert "
     "m.crt --key m.key\n"
     "  ndtrain tuner join --tuner tuner1:25258,tuner2:25258 --state member --insecure\n"
     "  ndtrain job submit finetune -m resnet50.onnx --freeze layer2 --tuners 2 --sync auto\n",
     declare_tuner_join, run_tuner_join},
    {"tuner move", "bring a Tuner's state from its directory into a database",
     "STATE --to postgresql://USER@HOST/DATABASE [--dry-run]",
     "  ndtrain tuner move /var/lib/ndtrain/tuner --to postgresql://ndtrain@db/ndtrain --dry-run\n"
     "  ndtrain tuner move /var/lib/ndtrain/tuner --to postgresql://ndtrain@db/ndtrain\n"
     "  ndtrain tuner serve --standby --state postgresql://ndtrain@db/ndtrain --scratch scratch\n",
     declare_tuner_move, run_tuner_move},
    {"tuner members", "who trains together with a Tuner", "[--http HOST:PORT]",
     "  ndtrain tuner members\n", declare_tuner_members, run_tuner_members},
    {"dashboard", "the Tuner's page in a browser, signed in", "[--http HOST:PORT] [--no-open]",
     "  ndtrain dashboard\n"
     "  NDTRAIN_TOKEN=ndt_... ndtrain dashboard --http https://tuner.example.org:8420\n",
     declare_dashboard, run_dashboard},
    {"pipestore serve", "features and labels next to the photos",
     "--photos DIR --tuner HOST:PORT --state DIR [options]",
     "  ndtrain pipestore serve --photos /srv/photos --tuner 10.0.0.1:25258 --state "
     "/var/lib/ndtrain/store --ca ca.crt --cert a.crt --key a.key\n"
     "  ndtrain pipestore serve --photos photos --labels folder --state s1 --name s1 --shard "
     "0/2\n",
     declare_pipestore_serve, run_pipestore_serve},
    {"pipestore", "the same, with the Tuner's host in $TUNER_IP", "PORT --photos DIR --state DIR",
     "  ndtrain pipestore 25258 --photos photos --state store\n"
     "  TUNER_IP=10.0.0.1 ndtrain pipestore 25258 --photos photos --state store --insecure\n",
     declare_pipestore, run_pipestore},
    {"up", "a Tuner and PipeStores on this machine, in the background", "DIR [options]",
     "  ndtrain up site --stores 2 --photos flowers/train --labels folder\n"
     "  ndtrain up site --stores 3          # photos in site/store1/photos and so on\n",
     declare_up, run_up},
    {"down", "stop what ndtrain up started", "DIR", "  ndtrain down site\n", declare_down,
     run_down}};

constexpr Verb kJobs[] = {
    {"job submit", "ask a Tuner for a job", "finetune|relabel|eval|refine [-m MODEL] [options]",
     "  ndtrain job submit finetune -m squeezenet.onnx --head linear --runs 3 --follow\n"
     "  ndtrain job submit finetune -m resnet50.onnx --stores attic,cellar --precision int8\n"
     "  ndtrain job submit refine --follow      # which labels do photos contradict?\n"
     "  ndtrain job submit relabel --follow\n",
     declare_job_submit, run_job_submit},
    {"job ls", "all jobs of a Tuner", "[--http HOST:PORT]", "  ndtrain job ls\n", declare_job_ls,
     run_job_ls},
    {"job show", "one job, with its times and bytes", "JOB [--follow]",
     "  ndtrain job show 3 --follow\n", declare_job_show, run_job_show},
    {"job note", "say something of a job", "JOB [TEXT] [--name NAME]",
     "  ndtrain job note 3 'with the photos of July'\n", declare_job_note, run_job_note},
    {"job tag", "words to find a job by", "JOB +TAG... -TAG...",
     "  ndtrain job tag 3 +july -to-do\n", declare_job_tag, run_job_tag},
    {"job cancel", "stop a job; resume goes on with it", "JOB", "  ndtrain job cancel 3\n",
     declare_job_cancel, run_job_cancel},
    {"job pause", "stop a job for now; others go on, and resume takes it up again", "JOB",
     "  ndtrain job pause 3\n  ndtrain job resume 3\n", declare_job_pause, run_job_pause},
    {"job start-now", "begin without the stores that a job waits for", "JOB",
     "  ndtrain job start-now 3\n", declare_job_start_now, run_job_start_now},
    {"job resume",
     "go on with a job that was paused or cancelled, or failed; what decides its result stays",
     "JOB [--disk BYTES ...]",
     "  ndtrain job resume 3\n  ndtrain job resume 3 --disk 20G --allow-missing\n",
     declare_job_resume, run_job_resume}};

constexpr Verb kStores[] = {
    {"photos like", "the photos that are most like another, as the version in force sees them",
     "PHOTO [-k N] [--task NAME] [--collection NAME]",
     "  ndtrain photos like attic/july/1.jpg\n"
     "  ndtrain photos like ~/new.jpg -k 5\n",
     declare_photos_like, run_photos_like},
    {"photos rm", "move photos to the trash, or remove them and all that was made of them for good",
     "PHOTO... [--keep TIME | --now] [--dry-run]",
     "  ndtrain photos rm attic/july/1.jpg attic/july/2.jpg\n"
     "  ndtrain photos rm $(sha256sum 1.jpg | cut -c-64) --keep 12h\n"
     "  ndtrain photos rm attic/july/1.jpg --now --dry-run\n",
     declare_photos_rm, run_photos_rm},
    {"photos trash", "the photos that can be restored, and until when", "[--http HOST:PORT]",
     "  ndtrain photos trash\n", declare_photos_trash, run_photos_trash},
    {"photos restore", "bring photos back from the trash, with their labels", "PHOTO...",
     "  ndtrain photos restore attic/july/1.jpg\n", declare_photos_restore, run_photos_restore},
    {"store ls", "the PipeStores a Tuner knows", "[--http HOST:PORT]", "  ndtrain store ls\n",
     declare_store_ls, run_store_ls},
    {"store drain", "give a PipeStore no more work", "STORE [--undo]",
     "  ndtrain store drain attic\n", declare_store_drain, run_store_drain},
    {"store forget", "take a PipeStore that is gone off the list", "STORE",
     "  ndtrain store forget attic\n", declare_store_forget, run_store_forget}};

constexpr Verb kVersions[] = {
    {"model ls", "the versions a Tuner has published, and where each is in force",
     "[--http HOST:PORT]", "  ndtrain model ls\n", declare_model_ls, run_model_ls},
    {"model diff", "what differs between two versions, and what sending it costs", "FROM TO",
     "  ndtrain model diff 3 4\n", declare_model_diff, run_model_diff},
    {"model note", "say something of a version", "VERSION [TEXT] [--name NAME]",
     "  ndtrain model note 4 'the first that knows tulips' --name tulips\n", declare_model_note,
     run_model_note},
    {"model tag", "words to find a version by", "VERSION +TAG... -TAG...",
     "  ndtrain model tag 4 +july -to-do\n", declare_model_tag, run_model_tag},
    {"model promote", "put a version in force on all stores", "VERSION [--candidate] [--dry-run]",
     "  ndtrain model promote 4\n", declare_model_promote, run_model_promote},
    {"model rollback", "put in force again what was before", "[--http HOST:PORT]",
     "  ndtrain model rollback\n", declare_model_rollback, run_model_rollback},
    {"model rm", "remove a version that nobody needs", "VERSION", "  ndtrain model rm 2\n",
     declare_model_rm, run_model_rm},
    {"task ls", "the classifiers of a Tuner, and what is in force of each", "[--http HOST:PORT]",
     "  ndtrain task ls\n", declare_task_ls, run_task_ls},
    {"task rm", "take a classifier away, with its labels and versions", "NAME [--dry-run]",
     "  ndtrain task rm mood --dry-run\n  ndtrain task rm mood\n", declare_task_rm, run_task_rm}};

constexpr Verb kPlans[] = {
    {"plan", "predict time, bytes, cost and energy of fine-tuning over PipeStores",
     "-m MODEL --photos DIR --stores N --bandwidth RATE | --profile FILE",
     "  ndtrain plan -m squeezenet.onnx --photos flowers --stores 2 --bandwidth 20M\n"
     "  ndtrain plan -m squeezenet.onnx --photos flowers --stores 1-4 --bandwidth 1Gbit \\\n"
     "    --head linear --save-profile plan.json\n"
     "  ndtrain plan --profile plan.json --stores 8 --bandwidth 10G --minimise cost\n"
     "  ndtrain plan --profile examples/plan_published.json --sweep\n",
     declare_plan, run_plan},
    {"plan train",
     "cut a model into stages of a training by several devices, or compare exchanges over a link",
     "--profile FILE -n N [N...] --network FILE [-o FILE] [options] | --link RATE -m MODEL",
     "  ndtrain plan train --profile profile.json -n 2 --network network.json -o plan.json\n"
     "  ndtrain plan train --profile graph.txt -n 4 2 --network network.json --cost ashpipe\n"
     "  ndtrain plan train --profile profile.json -n 4 2 --network network.json --memory 16G "
     "--preset pipeline\n"
     "  ndtrain plan train --profile profile.json -n 2 --network network.json --draw plan.svg\n"
     "  ndtrain plan train --link 100M -m alexnet.onnx -n 2 -b 64\n",
     declare_plan_train, run_plan_train},
    {"plan network", "measure what is between ranks, for ndtrain plan train --network",
     "--ranks N [--rank R --rendezvous HOST:PORT] [--levels N,N] [-o FILE]",
     "  ndtrain plan network --ranks 2 --rank 0 --rendezvous 10.0.0.1:25300 -o network.json\n"
     "  mpirun -n 8 ndtrain plan network --levels 4,2 -o network.json\n",
     declare_plan_network, run_plan_network}};

constexpr Verb kKeeping[] = {
    {"cache ls", "what the feature cache holds", "[--cache DIR]", "  ndtrain cache ls\n",
     declare_cache_ls, run_cache_ls},
    {"cache gc", "shrink the feature cache to its budget", "[--cache DIR] [--budget BYTES]",
     "  ndtrain cache gc --budget 2G\n", declare_cache_gc, run_cache_gc},
    {"cert init", "certificates for links between machines", "DIR [options]",
     "  ndtrain cert init certs --host tuner.example.org,10.0.0.5 --store store-1,store-2\n"
     "  ndtrain cert init certs --store store-3          # another PipeStore, later\n"
     "  ndtrain cert init certs --store store-1 --force  # before its certificate expires\n"
     "  ndtrain cert init certs --web attic.example.org  # for a PipeStore's HTTP\n"
     "  ndtrain cert init certs --member rank0=10.0.0.1,rank1=10.0.0.2  # for ndtrain train\n",
     declare_cert_init, run_cert_init},
    {"cert revoke", "take a certificate back", "DIR [NAME]",
     "  ndtrain cert revoke certs attic                  # writes certs/ca.crl\n"
     "  ndtrain cert init certs --store attic --force    # and gives it another\n",
     declare_cert_revoke, run_cert_revoke},
    {"token new", "let somebody in over HTTP; prints the token, once",
     "NAME --state DIR [--role ROLE]",
     "  ndtrain token new ann --role labeller --state /var/lib/ndtrain/tuner\n"
     "  ndtrain token new kid --role labeller --task mood --state /var/lib/ndtrain/tuner\n"
     "  ndtrain token new camera-7 --role uploader --expires 90d --state tuner\n",
     declare_token_new, run_token_new},
    {"token ls", "who has a token, and for what", "--state DIR",
     "  ndtrain token ls --state /var/lib/ndtrain/tuner\n", declare_token_ls, run_token_ls},
    {"token revoke", "let somebody in no more", "NAME --state DIR",
     "  ndtrain token revoke ann --state /var/lib/ndtrain/tuner\n", declare_token_revoke,
     run_token_revoke},
    {"backup", "the state of a Tuner or PipeStore in one file, while it runs", "STATE -o FILE",
     "  ndtrain backup /var/lib/ndtrain/tuner -o tuner-$(date +%F).tar.zst\n", declare_backup,
     run_backup},
    {"restore", "what ndtrain backup wrote, as a state directory", "FILE -o STATE",
     "  ndtrain restore tuner-2026-11-21.tar.zst -o /var/lib/ndtrain/tuner\n", declare_restore,
     run_restore},
    {"fsck", "whether the files of a stopped Tuner or PipeStore are as they were written",
     "STATE [--repair]",
     "  ndtrain fsck /var/lib/ndtrain/tuner\n"
     "  ndtrain fsck /var/lib/ndtrain/pipestore-attic --repair\n",
     declare_fsck, run_fsck}};

constexpr Verb kBench[] = {
    {"bench intake", "how fast a Tuner takes in features from memory over loopback",
     "--state DIR [--photos N] [--row-bytes N]", "  ndtrain bench intake --state /dev/shm/intake\n",
     declare_bench_intake, run_bench_intake},
    {"bench relabel", "how fast a new head labels photos whose features are kept",
     "--state DIR [options]",
     "  ndtrain bench relabel --state /tmp/relabel\n"
     "  ndtrain bench relabel --state /tmp/relabel --db postgresql://me@/bench\n",
     declare_bench_relabel, run_bench_relabel},
    {"bench labels", "how fast labels get into a database, and answers out of one",
     "--db URL [--photos N] [--classes C]",
     "  ndtrain bench labels --db sqlite:/tmp/bench.db --photos 1000000 --classes 100\n",
     declare_bench_labels, run_bench_labels},
    {"bench http", "time /healthz while slow clients hold what connections they can",
     "URL [--slow N] [--seconds S]", "  ndtrain bench http http://127.0.0.1:8420 --slow 2000\n",
     declare_bench_http, run_bench_http},
    {"bench upload", "load an upload address, and time its answers",
     "URL --photos DIR [-c N] [--rate X]",
     "  ndtrain bench upload http://127.0.0.1:8421 --photos flowers/val -c 32\n",
     declare_bench_upload, run_bench_upload}};

}  // namespace

std::span<const VerbSection> verb_sections() {
  static const std::array kSections = {
      VerbSection{"On this machine", local_verbs()},
      VerbSection{"On this machine", kHere},
      VerbSection{"Runs", kRuns},
      VerbSection{"Models", local_model_verbs()},
      VerbSection{"Labels", kLabels},
      VerbSection{"PipeStores and Tuners", kRoles},
      VerbSection{"Jobs of a Tuner", kJobs},
      VerbSection{"Photos and stores of a Tuner", kStores},
      VerbSection{"Model versions and tasks of a Tuner", kVersions},
      VerbSection{"Predictions", kPlans},
      VerbSection{"Caches, access and backups", kKeeping},
      VerbSection{"Measurements", kBench},
      VerbSection{"Measurements", local_bench_verbs()},
      VerbSection{"This program", local_help_verbs()}};
  return kSections;
}

}  // namespace ndtrain::cli
