"""What is wrong with an environment: one rule a fault, each with evidence and remedy. It imports no torch.

`probe` plays an environment and writes down what happened, `rules` read that, and `run` brings both together in child
processes, so that an environment which hangs or ends the process is a finding and not the end of the check.
"""
