"""The workflow around fits: experiments, configuration files, replay, and the doctor."""
