/** The open event streams: one text for all, whatever their number. A browser that does not read is dropped; it comes back by itself. */

/** Streams at a time, and bytes that may wait for one of them. */
const maxStreams = 100
const maxBytes = 8 * 1024 * 1024
/** A comment line that keeps proxies from ending a silent stream, in ms. */
const heartbeatInterval = 15_000

const encoder = new TextEncoder()

export class Hub {
  /** What to call when each is gone. */
  readonly #streams = new Map<ReadableStreamDefaultController<Uint8Array>, () => void>()
  readonly #onFirst: () => void
  readonly #onLast: () => void
  #heartbeat: NodeJS.Timeout | undefined
  #closed = false

  constructor(onFirst: () => void, onLast: () => void) {
    this.#onFirst = onFirst
    this.#onLast = onLast
  }

  get size(): number {
    return this.#streams.size
  }

  get closed(): boolean {
    return this.#closed
  }

  get full(): boolean {
    return this.#streams.size >= maxStreams
  }

  /** @param first the first message; @param ended called once, when the browser is gone */
  open(first: () => unknown, ended: () => void): ReadableStream<Uint8Array> {
    let mine: ReadableStreamDefaultController<Uint8Array> | undefined
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          mine = controller
          this.#streams.set(controller, ended)
          controller.enqueue(message('init', first()))
          if (this.#streams.size === 1) this.#wake()
        },
        cancel: () => void (mine && this.#remove(mine)),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: maxBytes }),
    )
  }

  send(event: string, data: unknown): void {
    if (this.#streams.size === 0) return
    this.#spread(message(event, data))
  }

  /** No stream is opened after it. */
  close(): void {
    this.#closed = true
    for (const stream of [...this.#streams.keys()]) this.#drop(stream)
  }

  #spread(bytes: Uint8Array): void {
    for (const stream of [...this.#streams.keys()]) {
      if ((stream.desiredSize ?? 0) <= 0) this.#drop(stream)
      else stream.enqueue(bytes)
    }
  }

  #drop(stream: ReadableStreamDefaultController<Uint8Array>): void {
    this.#remove(stream)
    stream.error(new Error('the stream was closed'))
  }

  #remove(stream: ReadableStreamDefaultController<Uint8Array>): void {
    const ended = this.#streams.get(stream)
    if (!this.#streams.delete(stream)) return
    ended?.()
    if (this.#streams.size === 0) this.#stopHeartbeat()
  }

  #wake(): void {
    this.#heartbeat = setInterval(
      () => this.#spread(encoder.encode(': still here\n\n')),
      heartbeatInterval,
    ).unref()
    this.#onFirst()
  }

  #stopHeartbeat(): void {
    clearInterval(this.#heartbeat)
    this.#onLast()
  }
}

/** JSON has no line breaks, so one `data` line is enough. */
function message(event: string, data: unknown): Uint8Array {
  return encoder.encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
}
