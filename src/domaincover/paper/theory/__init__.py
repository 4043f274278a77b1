"""The paper's theory: shattering of domains, learnability, and Gaussian domains in closed form."""
