// Counts the HTTP requests this process makes, where they leave.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { ClientRequest } from 'node:http'

/** The paths this process asks for over HTTP while `work` runs, which can look on. */
export async function asked(work: (paths: readonly string[]) => Promise<unknown>): Promise<string[]> {
  const paths: string[] = []
  const note = (event: unknown) => void paths.push((event as { request: ClientRequest }).request.path)
  subscribe('http.client.request.start', note)
  try {
    await work(paths)
  } finally {
    unsubscribe('http.client.request.start', note)
  }
  return paths
}
