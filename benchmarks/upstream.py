"""The static upstream: nginx that answers every call with the same file, so that all differs in front of it alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from string import Template
from typing import Final

from benchmarks import canned
from benchmarks.processes import Tree

# No file answers a POST, so it is refused and the refusal gets a file and a status (`error_page 405`). Which file is
# told by the body, and nginx has the body only where it proxies: hence the hop from the first server to the second.
_ENGINE: Final = Template("""
daemon off;
worker_processes 1;
pid $folder/engine.pid;
error_log $folder/engine.log warn;
events { worker_connections 4096; }
http {
  access_log off;
  types { application/json json; text/event-stream sse; }
  client_body_temp_path $folder/engine-body;
  proxy_temp_path $folder/engine-proxy;
  fastcgi_temp_path $folder/unused; uwsgi_temp_path $folder/unused; scgi_temp_path $folder/unused;
  client_body_buffer_size 4m;
  client_max_body_size 64m;
  keepalive_requests 1000000;
  map $$request_body $$shape { default whole.json; '~"stream":\\s*true' stream.sse; }
  upstream files { server unix:$folder/files.sock; keepalive 64; }
  server {
    listen 127.0.0.1:$port backlog=2048;
    location / {
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header X-Shape $$shape;
      proxy_buffers 16 64k; proxy_buffer_size 64k;
      proxy_pass http://files;
    }
  }
  server {
    listen unix:$folder/files.sock;
    root $folder;
    location = /v1/chat/completions { error_page 405 =200 /answers/$$http_x_shape; return 405; }
    location = /v1/models { default_type application/json; try_files /models.json =404; }
    location = /version { default_type application/json; try_files /version.json =404; }
    location = /health { return 200; }
    location /answers/ { }
  }
}
""")

_PROXY: Final = Template("""
daemon off;
worker_processes 1;
pid $folder/proxy.pid;
error_log $folder/proxy.log warn;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path $folder/proxy-body;
  proxy_temp_path $folder/proxy-proxy;
  fastcgi_temp_path $folder/unused; uwsgi_temp_path $folder/unused; scgi_temp_path $folder/unused;
  client_body_buffer_size 4m;
  client_max_body_size 64m;
  keepalive_requests 1000000;
  upstream engine { server 127.0.0.1:$engine_port; keepalive 64; }
  server {
    listen 127.0.0.1:$port backlog=2048;
    location ~ ^/sessions/[^/]+(/v1/.*)$$ {
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_buffers 16 64k; proxy_buffer_size 64k;
      proxy_pass http://engine$$1;
    }
  }
}
""")


def nginx() -> str:
    """Where nginx is, or an end that says how to get it."""
    found = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if found is None:
        raise SystemExit("The benchmark needs nginx: apt-get install nginx-light")
    return found


def start_engine(folder: Path, port: int) -> Tree:
    """The upstream, in the folder that holds its files too."""
    answers = folder / "answers"
    answers.mkdir()
    (answers / "whole.json").write_bytes(canned.whole_answer())
    (answers / "stream.sse").write_bytes(canned.streamed_answer())
    (folder / "models.json").write_bytes(canned.models())
    (folder / "version.json").write_text('{"version":"0.32.0"}')
    return _start(_ENGINE.substitute(folder=folder, port=port), folder / "engine.conf", port)


def start_proxy(folder: Path, port: int, engine_port: int) -> Tree:
    """nginx as a plain proxy: the physical neighbourhood."""
    return _start(_PROXY.substitute(folder=folder, port=port, engine_port=engine_port), folder / "proxy.conf", port)


def _start(configuration: str, path: Path, port: int) -> Tree:
    path.write_text(configuration)
    tree = Tree([nginx(), "-p", str(path.parent), "-c", str(path)], path.with_suffix(".out"))
    tree.wait_for(port)
    return tree
