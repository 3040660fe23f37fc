/**
 * A span `acquire` from the call to its end, and a span `hold` from the grant to its end. Both are children of the
 * span in which the lock was asked for; `hold` links to its `acquire`, and to the `hold` in this process that passed
 * the lock on.
 */
import type { LockEvents, Locks } from 'holdfast'
import type { Attributes, Context, OpenTelemetry, Span, SpanContext, Tracer } from './api.js'

/** `SpanStatusCode.ERROR`. */
const failed = 2
/** Names whose last hold is remembered, for links. */
const maxNames = 1_000

export interface SpanSettings {
  readonly group: ((name: string) => string) | undefined
  /** Put the name of the lock into `holdfast.lock.name`. */
  readonly names: boolean
}

export class Spans {
  readonly #tracer: Tracer
  readonly #context: OpenTelemetry['context']
  readonly #settings: SpanSettings
  readonly #acquiring = new Map<number, { readonly span: Span; readonly context: Context }>()
  readonly #holding = new Map<string, Span>()
  readonly #last = new Map<string, SpanContext>()
  readonly #off: (() => void)[]

  constructor(
    locks: Pick<Locks, 'on'>,
    tracer: Tracer,
    context: OpenTelemetry['context'],
    settings: SpanSettings,
  ) {
    this.#tracer = tracer
    this.#context = context
    this.#settings = settings
    this.#off = [
      locks.on('requested', (event) => this.#requested(event)),
      locks.on('waiting', ({ acquisition, blocked }) => this.#waiting(acquisition, blocked)),
      locks.on('granted', (event) => this.#granted(event)),
      locks.on('denied', (event) => this.#denied(event)),
      locks.on('doubtful', ({ name, token, remaining }) =>
        this.#holding.get(toKey(name, token))?.addEvent('doubtful', { 'holdfast.remaining': remaining }),
      ),
      locks.on('lost', ({ name, token, why }) => this.#ended(name, token, why)),
      locks.on('released', ({ name, token, outcome }) =>
        this.#ended(name, token, outcome === 'lost' ? 'taken' : undefined, outcome),
      ),
    ]
  }

  /** Ends the spans that are open. */
  stop(): void {
    for (const off of this.#off) off()
    for (const { span } of this.#acquiring.values()) span.end()
    for (const span of this.#holding.values()) span.end()
    this.#acquiring.clear()
    this.#holding.clear()
    this.#last.clear()
  }

  #requested({ name, driver, mode, acquisition }: LockEvents['requested']): void {
    const context = this.#context.active()
    const span = this.#start('acquire', this.#attributes(name, driver, mode.kind), [], context)
    this.#acquiring.set(acquisition, { span, context })
  }

  #waiting(acquisition: number, { position, error }: LockEvents['waiting']['blocked']): void {
    const span = this.#acquiring.get(acquisition)?.span
    if (error !== undefined) span?.addEvent('store error', { 'error.type': error.code })
    else span?.addEvent('blocked', position === undefined ? {} : { 'holdfast.queue.position': position })
  }

  #granted({ name, driver, mode, acquisition, token, handedOff }: LockEvents['granted']): void {
    const asked = this.#acquiring.get(acquisition)
    this.#acquiring.delete(acquisition)
    asked?.span.setAttribute('holdfast.outcome', 'granted')
    asked?.span.end()
    const links: SpanContext[] = asked === undefined ? [] : [asked.span.spanContext()]
    const before = handedOff ? this.#last.get(name) : undefined
    if (before !== undefined) links.push(before)
    const attributes = {
      ...this.#attributes(name, driver, mode.kind),
      'holdfast.token': token,
      'holdfast.handed_off': handedOff,
    }
    const span = this.#start('hold', attributes, links, asked?.context ?? this.#context.active())
    this.#holding.set(toKey(name, token), span)
    this.#remember(name, span.spanContext())
  }

  #denied({ acquisition, why, error }: LockEvents['denied']): void {
    const span = this.#acquiring.get(acquisition)?.span
    this.#acquiring.delete(acquisition)
    if (span === undefined) return
    span.setAttribute('holdfast.outcome', why)
    if (why === 'timeout' || why === 'failed') {
      span.setAttribute('error.type', String((error as { code?: unknown } | undefined)?.code ?? 'ERROR'))
      span.setStatus({ code: failed })
    }
    span.end()
  }

  #ended(name: string, token: number, cause: string | undefined, outcome?: string): void {
    const key = toKey(name, token)
    const span = this.#holding.get(key)
    this.#holding.delete(key)
    if (span === undefined) return
    span.setAttribute('holdfast.end', cause === undefined ? (outcome ?? 'released') : 'lost')
    if (cause !== undefined) {
      span.setAttribute('holdfast.cause', cause)
      span.setStatus({ code: failed })
    }
    span.end()
  }

  #start(name: string, attributes: Attributes, links: SpanContext[], context: Context): Span {
    const options = { attributes, links: links.map((one) => ({ context: one })) }
    return this.#tracer.startSpan(name, options, context as never)
  }

  #attributes(name: string, driver: string, mode: string): Attributes {
    const { group, names } = this.#settings
    return {
      'holdfast.driver': driver,
      'holdfast.lock.mode': mode,
      ...(group !== undefined && { 'holdfast.lock.group': String(group(name)) }),
      ...(names && { 'holdfast.lock.name': name }),
    }
  }

  #remember(name: string, context: SpanContext): void {
    this.#last.delete(name)
    this.#last.set(name, context)
    if (this.#last.size <= maxNames) return
    for (const oldest of this.#last.keys()) {
      this.#last.delete(oldest)
      return
    }
  }
}

const toKey = (name: string, token: number) => `${token} ${name}`
