import type { Settings } from './options.js'

/** What is done about a server that may drop its votes, which are worth nothing then. The warning is given once. @throws Error to give it no vote */
export function evictionCheck(eviction: Settings['eviction']): (told: string | undefined) => void {
  let warned = false
  return (told) => {
    if (told === undefined || eviction === 'ignore') return
    if (eviction === 'refuse') throw new Error(told)
    if (!warned) process.emitWarning(`holdfast/redlock: ${told}`, { code: 'HOLDFAST_REDLOCK_EVICTION' })
    warned = true
  }
}
