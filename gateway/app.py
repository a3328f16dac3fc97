"""The application: opens what a gateway needs, wires its planes together, and closes it all again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from gateway.admission import Admission
from gateway.agents import agent_routes, not_found, refuse
from gateway.api.app import create_api
from gateway.api.auth import Guard
from gateway.api.documentation import documentation_routes
from gateway.api.parts import ApiParts
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.detection import Detection
from gateway.dialects.table import COUNTERS, ENDPOINTS
from gateway.dispatch import Dispatcher
from gateway.exchange import Counters, ExchangeParts, ExchangeSettings
from gateway.exposure import check_exposure
from gateway.followed_backends import Followed, followed
from gateway.habits.budgets import Budgets
from gateway.habits.habits import Habits
from gateway.habits.retries import Retries
from gateway.health import Endpoint, Health, Notice
from gateway.intake import Intake, IntakeSettings
from gateway.introduction import introduce_one, introduced
from gateway.keys import Callers, KeyRing
from gateway.known_backends import known_backends, warm
from gateway.models import list_models
from gateway.patience import Patience
from gateway.planes import Planes
from gateway.probing import Prober
from gateway.proxy import Proxy, ProxySettings
from gateway.refusals import Defect
from gateway.retokenizer import Retokenizer
from gateway.routes import Door, Page
from gateway.sessions import Sessions
from gateway.settings import Settings
from gateway.sight.exposition import metrics_page
from gateway.sight.loop_lag import lag_watched
from gateway.sight.moment import Moment, places
from gateway.sight.siblings import Siblings, told_by_all
from gateway.sight.sight import Sight
from gateway.sight.told import Told
from gateway.sight.tracing import spans_for
from gateway.token_counter import TokenCounter
from gateway.tries import TRIES
from gateway.upstream import Upstream
from gateway.weights.parts import WeightParts
from storage.ids import new_id
from storage.records import StoredBackend
from storage.store import Store

logger = logging.getLogger(__name__)


class Gateway:
    """The root ASGI application. It owns the lifespan of everything mounted below it."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], siblings: Siblings | None) -> None:
        self._settings = settings
        self._environ = environ
        self._siblings = siblings
        self._app: Planes | None = None
        self._lifespan = Router(lifespan=self._opened)
        self._notice = Notice()

    def stop(self) -> None:
        """It is about to stop: `/readyz` says so from now on."""
        self._notice.given = True

    @property
    def is_watched(self) -> bool:
        """Somebody asks `/readyz`, and will send no more calls once that says no."""
        return self._notice.is_watched_for

    def doors(self) -> list[Door]:
        """Every route, and what it needs. Once the lifespan has begun."""
        assert self._app is not None
        return self._app.doors()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
            return
        assert self._app is not None, "the server has to run the lifespan before it serves"
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception:
            # The outermost edge: nobody gets a plain-text 500, and no answer is begun twice.
            logger.exception("%s %s failed", scope.get("method"), scope["path"])
            if started or scope["type"] != "http":
                raise
            await refuse(scope, send, Defect("The gateway failed on this call; its log says more."))

    @asynccontextmanager
    async def _opened(self, _: object) -> AsyncIterator[None]:
        async with opened(self._settings, self._environ, self._notice, self._siblings) as app:
            self._app = app
            yield


def create_app(
    settings: Settings, environ: Mapping[str, str] | None = None, siblings: Siblings | None = None
) -> Gateway:
    """`environ` has the keys of backends that administrators add, by the variables that they name."""
    return Gateway(settings, environ or {}, siblings)


@asynccontextmanager
async def opened(
    settings: Settings, environ: Mapping[str, str], notice: Notice, siblings: Siblings | None
) -> AsyncIterator[Planes]:
    """A gateway that serves for as long as the context is open.

    Raises StorageError where its database can't be opened, TokenizerUnavailable where a configured tokenizer can't;
    Exposed where others could use it without a key.
    """
    async with AsyncExitStack() as stack:
        gateway_id = new_id()
        store = await asyncio.to_thread(
            Store.open,
            settings.database,
            gateway_id=gateway_id,
            spool=settings.spool,
            durability=settings.durability,
        )
        stack.push_async_callback(store.close)
        upstream = await stack.enter_async_context(Upstream(connect_timeout=settings.connect_timeout / TRIES))
        detection = Detection(upstream, timeout=settings.detect_timeout)
        backends = Backends(await known_backends(settings, store, environ), detection)
        stack.push_async_callback(backends.close)
        patience = Patience()
        ring = KeyRing(
            [key.get_secret_value() for key in settings.keys],
            settings.admin_key.get_secret_value() if settings.admin_key is not None else None,
        )
        callers = Callers(ring, store.keys, shared=store.shared, patience=patience)
        await stack.enter_async_context(callers.followed())
        check_exposure(settings, ring)
        sessions = Sessions(store, callers=callers, shared=store.shared, patience=patience)
        stack.callback(sessions.close)
        weights = WeightParts.of(
            store.weights, backends, upstream, patience, gateway_id=gateway_id, shared=store.shared
        )
        await stack.enter_async_context(weights.followed())
        spans = spans_for(settings, environ)
        if spans is not None:
            stack.push_async_callback(asyncio.to_thread, spans.close)
        counters, sight = Counters(), Sight(spans)
        await stack.enter_async_context(lag_watched(sight.metrics.loop_lag.observe))
        retokenizer = Retokenizer()
        stack.callback(retokenizer.close)
        await retokenizer.warm(backend.tokenizer for backend in settings.backends if backend.tokenizer is not None)
        await warm(backends.all(), retokenizer)
        await stack.enter_async_context(introduced(backends))
        prober = Prober(backends, upstream, patience=settings.detect_timeout, quiet=settings.probe_interval)
        await stack.enter_async_context(prober.running())
        if store.shared:

            async def ask() -> tuple[StoredBackend, ...]:
                stored = await patience.wait_for(store.backends.every)
                # The version that was told with one that is new stands there by now.
                await weights.following.refresh()
                return stored

            async def prepare(backend: Backend) -> None:
                weights.versions.look()
                await warm([backend], retokenizer)
                await introduce_one(backend, backends)

            await stack.enter_async_context(followed(Followed(backends, environ), ask, prepare))
        exchange = ExchangeParts(
            sessions=sessions,
            store=store,
            dispatcher=Dispatcher(
                backends,
                upstream,
                first_byte_timeout=settings.first_byte_timeout,
                connect_timeout=settings.connect_timeout,
                busy_wait=settings.busy_wait,
                gate=weights.gate,
            ),
            retokenizer=retokenizer,
            habits=Habits(
                Budgets(store, shared=store.shared, patience=patience),
                Retries(store, shared=store.shared, patience=patience),
                aux_rules=settings.aux_rules,
                keep_limits=settings.max_tokens_beyond_context == "send",
            ),
            patience=patience,
            settings=ExchangeSettings(
                capture=settings.capture,
                commit_timeout=settings.commit_timeout,
                idle_timeout=settings.idle_timeout,
                total_timeout=settings.total_timeout,
                max_answer_bytes=settings.max_answer_bytes,
            ),
            counters=counters,
            sight=sight,
            told=weights.versions.told,
        )
        intake = Intake(
            IntakeSettings(
                max_body_bytes=settings.max_body_bytes,
                max_bodies_bytes=settings.max_bodies_bytes,
                receive_timeout=settings.receive_timeout,
            )
        )
        proxy = Proxy(
            exchange,
            ProxySettings(
                gateway_id=gateway_id,
                keepalive_interval=settings.keepalive_interval,
                keepalive_whole=settings.keepalive_whole,
            ),
            intake,
            Admission(
                max_calls=settings.max_calls,
                max_calls_per_key=settings.max_calls_per_key,
                ring=ring,
            ),
        )
        counter = TokenCounter(backends, upstream, retokenizer, patience=settings.detect_timeout)
        models = partial(list_models, backends, upstream, patience=settings.detect_timeout)
        health = Health(store, backends, notice)
        api = create_api(
            ApiParts(
                store=store,
                sessions=sessions,
                callers=callers,
                keys=store.keys,
                audit=store.audit,
                backends=backends,
                tokenizers=retokenizer,
                weights=weights.control,
                settings=settings,
                counters=counters,
                sight=sight,
                gateway_id=gateway_id,
                patience=patience,
                environ=environ,
                stopping=lambda: notice.given,
            )
        )
        moment = Moment(
            store=store.counts,
            counters=counters,
            backends=backends,
            gate=weights.gate,
            connections=lambda: upstream.pool,
            body_bytes=lambda: intake.held,
            problems=health.problems,
            stopping=lambda: notice.given,
            places=places(settings.database, store.spool_folder),
        )
        told = await stack.enter_async_context(told_by_all(Told(sight.metrics, moment), siblings))
        guard = Guard(callers=callers, sessions=sessions, listens_on=settings.listens_on)
        pages = [
            Page("/healthz", Endpoint(list)),
            Page("/readyz", Endpoint(health.asked)),
            metrics_page(told, None if settings.metrics_open else guard),
            *documentation_routes(api, [*ENDPOINTS, *COUNTERS, "/v1/models"]),
        ]
        yield Planes(
            calls=agent_routes(proxy, intake, sessions, counter, models),
            api=api,
            pages=pages,
            otherwise=not_found,
            admin_port=settings.admin_port,
        )
