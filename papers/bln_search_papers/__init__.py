"""Networks and data sets of the experiments of single papers, as plug-ins of bln-search; one package for each paper."""
