def write(r):
    pass
