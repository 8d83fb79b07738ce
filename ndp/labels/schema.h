// The tables of a label database.
#pragma once

#include <cstdint>
#include <string_view>

namespace ndtrain::ndp {

// Keys are integers: random 32-byte keys make every insert touch another page.
inline constexpr std::string_view kSchema1 = R"sql(
CREATE TABLE collections (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);
CREATE TABLE photos (
  id INTEGER PRIMARY KEY,
  sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32)
);
CREATE TABLE places (
  collection INTEGER NOT NULL REFERENCES collections (id),
  path TEXT NOT NULL,
  photo INTEGER NOT NULL REFERENCES photos (id),
  PRIMARY KEY (collection, path)
) WITHOUT ROWID;
CREATE INDEX places_photo ON places (collection, photo, path);

CREATE TABLE tasks (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);
CREATE TABLE classes (
  task INTEGER NOT NULL REFERENCES tasks (id),
  id INTEGER NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (task, id),
  UNIQUE (task, name)
) WITHOUT ROWID;
CREATE TABLE versions (
  id INTEGER PRIMARY KEY,
  task INTEGER NOT NULL REFERENCES tasks (id),
  content BLOB NOT NULL CHECK (length(content) = 32),
  parent INTEGER REFERENCES versions (id),
  created INTEGER NOT NULL,
  metrics TEXT NOT NULL,
  UNIQUE (task, content),
  UNIQUE (task, id)
);

CREATE TABLE labels (
  id INTEGER PRIMARY KEY,
  photo INTEGER NOT NULL REFERENCES photos (id),
  task INTEGER NOT NULL,
  class INTEGER NOT NULL,
  score REAL,
  top_k TEXT,
  source INTEGER NOT NULL CHECK (source BETWEEN 1 AND 4),
  version INTEGER,
  time INTEGER NOT NULL,
  current INTEGER NOT NULL CHECK (current IN (0, 1)),
  CHECK ((source = 1) = (version IS NOT NULL)),
  FOREIGN KEY (task, class) REFERENCES classes (task, id),
  FOREIGN KEY (task, version) REFERENCES versions (task, id)
);
CREATE UNIQUE INDEX labels_once ON labels (version, photo) WHERE version IS NOT NULL;
CREATE UNIQUE INDEX labels_current ON labels (task, photo) WHERE current = 1;
CREATE INDEX labels_class ON labels (task, class, photo) WHERE current = 1;
CREATE INDEX labels_history ON labels (photo, task, source);
)sql";

// A photo's labels lie side by side, so that a new one finds the one it replaces on its own page;
// one of each (photo, task) that is not withdrawn has current = 1, and only these are in the two
// indexes. The id of a deleted photo is never given to another. top_k is blob now: see label_row.h.
inline constexpr std::string_view kSchema2 = R"sql(
DROP INDEX places_photo;
DROP INDEX labels_once;
DROP INDEX labels_current;
DROP INDEX labels_class;
DROP INDEX labels_history;
ALTER TABLE labels RENAME TO labels_1;
ALTER TABLE places RENAME TO places_1;
ALTER TABLE photos RENAME TO photos_1;

CREATE TABLE photos (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  sha256 BLOB NOT NULL UNIQUE CHECK (length(sha256) = 32)
);
INSERT INTO photos SELECT id, sha256 FROM photos_1;
CREATE TABLE places (
  collection INTEGER NOT NULL REFERENCES collections (id),
  path TEXT NOT NULL,
  photo INTEGER NOT NULL REFERENCES photos (id),
  PRIMARY KEY (collection, path)
) WITHOUT ROWID;
INSERT INTO places SELECT collection, path, photo FROM places_1;
CREATE INDEX places_photo ON places (photo, collection, path);

CREATE TABLE stores (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);
ALTER TABLE versions ADD COLUMN withdrawn INTEGER;
ALTER TABLE tasks ADD COLUMN in_force INTEGER REFERENCES versions (id);
UPDATE tasks SET in_force =
  (SELECT id FROM versions WHERE task = tasks.id ORDER BY created DESC, id DESC LIMIT 1);

CREATE TABLE labels (
  photo INTEGER NOT NULL REFERENCES photos (id),
  task INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  class INTEGER NOT NULL,
  score REAL,
  source INTEGER NOT NULL CHECK (source BETWEEN 1 AND 4),
  version INTEGER,
  store INTEGER REFERENCES stores (id),
  time INTEGER NOT NULL,
  at_random INTEGER NOT NULL,
  current INTEGER NOT NULL CHECK (current IN (0, 1)),
  top_k BLOB,
  PRIMARY KEY (photo, task, seq),
  CHECK ((source = 1) = (version IS NOT NULL)),
  FOREIGN KEY (task, class) REFERENCES classes (task, id),
  FOREIGN KEY (task, version) REFERENCES versions (task, id)
) WITHOUT ROWID;
INSERT INTO labels SELECT photo, task, row_number() OVER (PARTITION BY photo, task ORDER BY id),
  class, score, source, version, NULL, time, 0, current, ndt_top_k(top_k) FROM labels_1;
CREATE INDEX labels_class ON labels (task, class, photo) WHERE current = 1;
CREATE INDEX labels_version ON labels (task, version, photo) WHERE current = 1;
DROP TABLE labels_1;
DROP TABLE places_1;
DROP TABLE photos_1;
)sql";

// The number that a Tuner gave the version.
inline constexpr std::string_view kSchema3 = R"sql(
ALTER TABLE versions ADD COLUMN number INTEGER;
)sql";

// Photos in the trash, also such as are not there yet, and the places that they come back to.
inline constexpr std::string_view kSchema4 = R"sql(
CREATE TABLE trash (
  sha256 BLOB PRIMARY KEY CHECK (length(sha256) = 32)
) WITHOUT ROWID;
CREATE TABLE trash_places (
  photo INTEGER NOT NULL REFERENCES photos (id),
  collection INTEGER NOT NULL REFERENCES collections (id),
  path TEXT NOT NULL,
  PRIMARY KEY (photo, collection, path)
) WITHOUT ROWID;
)sql";

// Pages have checksums (ndp/sqlite/page_checksums.h), which a program that knows of none must not
// write over.
inline constexpr std::string_view kSchema5 = "-- the same tables";
inline constexpr int64_t kFirstWithChecksums = 5;

// Labels that what their photos show contradicts (LabelIssue), until a person has said something.
inline constexpr std::string_view kSchema6 = R"sql(
CREATE TABLE label_issues (
  task INTEGER NOT NULL REFERENCES tasks (id),
  photo INTEGER NOT NULL REFERENCES photos (id),
  class INTEGER NOT NULL,
  score REAL NOT NULL,
  suggested INTEGER NOT NULL,
  suggested_score REAL NOT NULL,
  answered INTEGER NOT NULL CHECK (answered IN (0, 1)),
  PRIMARY KEY (task, photo),
  FOREIGN KEY (task, class) REFERENCES classes (task, id),
  FOREIGN KEY (task, suggested) REFERENCES classes (task, id)
) WITHOUT ROWID;
)sql";

// What label_counts.h says, of what there is, and labels without a version by their time.
inline constexpr std::string_view kSchema7 = R"sql(
CREATE INDEX labels_truths ON labels (task, time, photo) WHERE current = 1 AND version IS NULL;
CREATE TABLE photo_counts (
  collection INTEGER PRIMARY KEY REFERENCES collections (id),
  photos INTEGER NOT NULL
);
CREATE TABLE label_counts (
  collection INTEGER NOT NULL,
  task INTEGER NOT NULL,
  version INTEGER NOT NULL,
  seconds INTEGER NOT NULL,
  since INTEGER NOT NULL,
  class INTEGER NOT NULL,
  labels INTEGER NOT NULL,
  scores REAL NOT NULL,
  PRIMARY KEY (collection, task, version, seconds, since, class)
) WITHOUT ROWID;
INSERT INTO photo_counts SELECT collection, count(DISTINCT photo) FROM places GROUP BY collection;
INSERT INTO label_counts
  SELECT p.collection, l.task, ifnull(l.version, 0), 1, l.time, l.class, count(*),
    total(l.score)
  FROM labels l CROSS JOIN (SELECT DISTINCT photo, collection FROM places) p
  WHERE l.current = 1 AND p.photo = l.photo GROUP BY 1, 2, 3, 5, 6;
INSERT INTO label_counts
  SELECT collection, task, version, 0, 0, 0, sum(labels), total(scores) FROM label_counts
  GROUP BY 1, 2, 3;
DELETE FROM label_counts WHERE version = 0 AND seconds = 1;
INSERT INTO label_counts
  SELECT collection, task, version, 64, since - (since % 64 + 64) % 64, class, sum(labels),
    total(scores)
  FROM label_counts WHERE seconds = 1 GROUP BY 1, 2, 3, 5, 6;
INSERT INTO label_counts
  SELECT collection, task, version, 4096, since - (since % 4096 + 4096) % 4096, class, sum(labels),
    total(scores)
  FROM label_counts WHERE seconds = 64 GROUP BY 1, 2, 3, 5, 6;
)sql";
inline constexpr int64_t kFirstWithCounts = 7;

// The statements of it that count all there is into empty tables.
inline constexpr std::string_view kCountAll =
    kSchema7.substr(kSchema7.find("INSERT INTO photo_counts"));

}  // namespace ndtrain::ndp
