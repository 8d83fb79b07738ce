"""Training steps of a torchvision network in PyTorch on random rows: forward, cross entropy, backward, Adam.

usage: torch_step.py NETWORK BATCH THREADS SECONDS [--compute f32|bf16] [--channels-last]   (pip: torch torchvision)
bf16 is autocast's, with weights of f32. Prints images per second (the median step) and the peak of resident memory
"""
import argparse
import resource
import statistics
import time

import torch
import torchvision as tv


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network")
    parser.add_argument("batch", type=int)
    parser.add_argument("threads", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--compute", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--channels-last", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    net = getattr(tv.models, args.network)(num_classes=1000).train()
    x = torch.randn(args.batch, 3, 224, 224)
    y = torch.randint(1000, (args.batch,))
    if args.channels_last:
        net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    loss_of = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.compute == "bf16"):
            loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()

    step()
    times, until = [], time.time() + args.seconds
    while time.time() < until or len(times) < 3:
        start = time.time()
        step()
        times.append(time.time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{args.batch / statistics.median(times):.3f} images/s, peak {peak:.0f} MiB")


main()
