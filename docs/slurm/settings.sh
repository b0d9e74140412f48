# Settings of every job; the batch scripts read this file. Its folder is shared by all nodes.
source /srv/bln-search/venv/bin/activate
export BLN_SEARCH_DATABASE=postgresql+psycopg://bln_search@db.example.org/bln_search
export BLN_SEARCH_DATABASE_PASSWORD_FILE=/srv/bln-search/database_password
export BLN_SEARCH_HOME=/srv/bln-search/home
export BLN_SEARCH_DATA=/srv/bln-search/data
export BLN_SEARCH_CACHE=/tmp/bln-search-cache
