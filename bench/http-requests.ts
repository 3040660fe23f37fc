/** Counts the HTTP requests of this process where they leave. */
import { subscribe } from 'node:diagnostics_channel'

let count = 0
let subscribed = false

/** The number of requests since the first call. */
export function httpRequests(): number {
  if (!subscribed) subscribe('http.client.request.start', () => void count++)
  subscribed = true
  return count
}
