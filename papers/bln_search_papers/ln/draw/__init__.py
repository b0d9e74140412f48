"""Deep Recurrent Attentive Writer: a recurrent variational autoencoder of images."""

from bln_search_papers.ln.draw.network import DRAW

__all__ = ["DRAW"]
