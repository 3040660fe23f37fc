import type { Settings } from './options.js'

/** Handles a server that may evict its votes, which are then worthless. Warns once. @throws Error to give the server no vote */
export function evictionCheck(eviction: Settings['eviction']): (message: string | undefined) => void {
  let warned = false
  return (message) => {
    if (message === undefined || eviction === 'ignore') return
    if (eviction === 'refuse') throw new Error(message)
    if (!warned) process.emitWarning(`holdfast/redlock: ${message}`, { code: 'HOLDFAST_REDLOCK_EVICTION' })
    warned = true
  }
}
