"""The changes of the tables, one file each, never edited once released."""
