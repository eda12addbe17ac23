"""The workflow around a fit: experiments, configuration files, replay, and the doctor."""
