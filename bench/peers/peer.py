"""What the scripts here share: running `ndtrain` and the peers, alternating between two sides, medians."""
import json
import os
import re
import statistics
import subprocess


class Failed(SystemExit):
    """ndtrain has refused something; ends the script where nobody catches it."""


def ndtrain(program, *args, ok=(0,)):
    """The JSON that `program ARGS --json` prints."""
    done = subprocess.run([program, *map(str, args), "--json", "-q"], capture_output=True, text=True)
    if done.returncode not in ok or not done.stdout:
        raise Failed(f"{program} {' '.join(map(str, args))}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def peer(python, script, *args, pattern, env=None):
    """The number that `pattern` finds in what a peer script prints."""
    done = subprocess.run([python, script, *map(str, args)], capture_output=True, text=True,
                          env={**os.environ, **(env or {})})
    found = re.search(pattern, done.stdout)
    if done.returncode != 0 or not found:
        raise SystemExit(f"{script}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return float(found[1]), done.stdout.strip()


def spread(values):
    return f"{statistics.median(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def alternate(rounds, *sides):
    """The sides in turn, so that what disturbs the machine disturbs all. A list of results for each."""
    results = [[] for _ in sides]
    for _ in range(rounds):
        for side, result in zip(sides, results):
            result.append(side())
    return results
