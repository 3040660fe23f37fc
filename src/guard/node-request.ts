/** A request of Node's own HTTP server, also under Express or Connect, as the gatekeeper sees it. */

import { fenceHeader } from './header.js'
import type { NodeRequest, NodeResponse } from './middleware.js'
import type { IncomingRequest } from './request-gate.js'

export function fromNodeRequest<R extends NodeRequest>(
  request: R,
  response: NodeResponse,
  gone: AbortSignal,
): IncomingRequest<R> {
  const header = request.headers[fenceHeader]
  return {
    request,
    header: Array.isArray(header) ? header.join(', ') : header,
    gone,
    body: (most, stop) => received(request, most, stop),
    cutOff: () => void response.destroy?.(),
  }
}

/** Aborted when the client hangs up, and at once if it already has. Call it before anything is awaited: the event comes once. */
export function hangUp(response: NodeResponse): AbortSignal {
  const gone = new AbortController()
  if (response.closed || isOver(response)) gone.abort()
  else response.once('close', () => gone.abort())
  return gone.signal
}

/** What to call for each response whose handler has not answered yet. */
const unanswered = new WeakMap<object, Set<() => void>>()

/**
 * Calls `done` when the handler has answered, even if nobody is there to read it, when it has destroyed the response,
 * and when what it pipes into the response is cut off because the client has hung up: Node then never calls `end`.
 */
export function onAnswered(response: NodeResponse, done: () => void): void {
  const waiting = unanswered.get(response) ?? new Set()
  unanswered.set(response, waiting.add(done))
  for (const method of ['end', 'destroy'] as const) {
    const given = response[method]
    if (given === undefined) continue
    response[method] = function (this: unknown, ...args: never[]) {
      try {
        return given.apply(this, args)
      } finally {
        done()
      }
    }
  }
  const sources = new Set<unknown>()
  response.on?.('pipe', (source) => sources.add(source))
  response.on?.('unpipe', (source) => {
    sources.delete(source)
    if (sources.size === 0 && isOver(response)) done()
  })
}

/** The handler of this response has failed and will not end it: that is left to Express, which closes the connection. */
export function giveUp(response: object): void {
  for (const done of unanswered.get(response) ?? []) done()
}

/** Reads the body to its end and puts it back, so that the handler finds it untouched. */
async function received(request: NodeRequest, most: number, stop: AbortSignal): Promise<boolean> {
  const { 'content-length': length, 'transfer-encoding': chunked } = request.headers
  if (Number(length ?? 0) > most) return false
  // Over HTTP/2 no header says whether a body follows.
  const bodiless = request.stream === undefined && chunked === undefined && Number(length ?? 0) === 0
  if (bodiless || request.readableDidRead) return true
  const parts: unknown[] = []
  let bytes = 0
  await new Promise<void>((resolve) => {
    const look = () => {
      // Reading from an empty buffer would end the stream before the handler sees it.
      while ((request.readableLength ?? 0) > 0 && bytes <= most) {
        const part = request.read?.() as Uint8Array
        parts.push(part)
        bytes += part.length
      }
      if (isComplete(request) || request.destroyed || bytes > most || stop.aborted) over()
    }
    const over = () => {
      request.off?.('readable', look)
      request.off?.('close', over)
      stop.removeEventListener('abort', over)
      resolve()
    }
    request.on?.('readable', look)
    request.on?.('close', over)
    stop.addEventListener('abort', over)
    look()
  })
  if (bytes > most) return false
  for (const part of parts.reverse()) request.unshift?.(part)
  return true
}

/** Over HTTP/2, a request says so only after it has been read, and also when the client has hung up in the middle of it. */
function isComplete({ complete, stream }: NodeRequest): boolean {
  return stream === undefined ? complete === true : stream.readableEnded && !stream.aborted
}

/** Over HTTP/2, only the stream tells. */
function isOver({ destroyed, stream }: NodeResponse): boolean {
  return (stream?.destroyed ?? destroyed) === true
}
