"""Training steps of a torchvision model by PyTorch's DistributedDataParallel over Gloo, on rows that are there: the seconds
of a step.

usage: torch_ddp.py --rank R --ranks N --master HOST [--model resnet18] [--port 29500] [--batch 16] [--steps 20] [--warmup 3]
                    [--threads 1]
       --model alexnet-classifier is alexnet's, of 5 classes, on the features before it
       each rank of its own; the batch is that of a rank. GLOO_SOCKET_IFNAME names the network device
"""
import argparse
import statistics
import time

import torch
import torchvision


# A model, and the shape of one of its rows.
MODELS = {
    "resnet18": lambda: (torchvision.models.resnet18(), (3, 224, 224)),
    "alexnet-classifier": lambda: (torchvision.models.alexnet(num_classes=5).classifier, (9216,)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--master", required=True)
    parser.add_argument("--model", choices=MODELS, default="resnet18")
    parser.add_argument("--port", type=int, default=29500)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://{args.master}:{args.port}", rank=args.rank,
                                         world_size=args.ranks)
    model, row = MODELS[args.model]()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    images = torch.randn(args.batch, *row)
    labels = torch.randint(0, 5, (args.batch,))
    times = []
    for step in range(args.warmup + args.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss_of(model(images), labels).backward()
        optimizer.step()
        if step >= args.warmup:
            times.append(time.perf_counter() - start)
    print(f"step {statistics.median(times):.4f} s")
    print(f"torch {torch.__version__}, {min(times):.4f} to {max(times):.4f}")
    torch.distributed.destroy_process_group()


main()
