"""The transaction coordinator: transactional ids, their transactions, and the markers that end these."""
