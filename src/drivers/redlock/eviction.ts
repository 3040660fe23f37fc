import type { Settings } from './options.js'

/** Handles a server that may evict its votes, which are then worthless. Warns once. @throws Error to give the server no vote */
export function evictionCheck(eviction: Settings['eviction']): (told: string | undefined) => void {
  let warned = false
  return (told) => {
    if (told === undefined || eviction === 'ignore') return
    if (eviction === 'refuse') throw new Error(told)
    if (!warned) process.emitWarning(`holdfast/redlock: ${told}`, { code: 'HOLDFAST_REDLOCK_EVICTION' })
    warned = true
  }
}
