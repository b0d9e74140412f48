"""Deep Recurrent Attentive Writer: a recurrent variational autoencoder of images."""

from bln_search.models.draw.network import DRAW

__all__ = ["DRAW"]
