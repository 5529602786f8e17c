from torchtitan.models.llama3 import model_registry
def f():
    config = llama3_70b()
    x *= 2
    = 3
    *= 4
    , = 5
    config.training.steps = 
    a.b = c, = 
    config.parallelism.x = []
    return config
