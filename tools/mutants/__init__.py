"""Small mistakes put into src/, one at a time: the tests must notice nearly all of them."""
