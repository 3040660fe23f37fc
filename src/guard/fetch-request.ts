/** A Fetch request as the gatekeeper sees it. */

import { fenceHeader } from './header.js'
import type { IncomingRequest } from './request-gate.js'

export function fromFetchRequest<R extends Request>(request: R, cutOff: () => void): IncomingRequest<R> {
  return {
    request,
    header: request.headers.get(fenceHeader) ?? undefined,
    gone: request.signal,
    body: (most, stop) => received(request, most, stop),
    cutOff,
  }
}

/** Reads a copy to its end: what the handler reads is then in memory. */
async function received(request: Request, most: number, stop: AbortSignal): Promise<boolean> {
  if (Number(request.headers.get('content-length') ?? 0) > most) return false
  if (request.body === null || request.bodyUsed) return true
  const reader = request.clone().body?.getReader()
  if (reader === undefined) return true
  const cancel = () => {
    reader.cancel().catch(() => undefined)
    request.body?.cancel().catch(() => undefined)
  }
  stop.addEventListener('abort', cancel)
  if (stop.aborted) cancel()
  try {
    for (let bytes = 0; ; ) {
      const { done, value } = await reader.read()
      if (done) return true
      bytes += value.byteLength
      if (bytes > most) {
        cancel()
        return false
      }
    }
  } finally {
    stop.removeEventListener('abort', cancel)
  }
}
