/** What a server reports about deletions: it counts the calls of each command since its start. */

/** Each of them can take away the marker and the votes; `config|resetstat` takes away the other counters, and is itself counted after that. */
const deleting = ['flushall', 'flushdb', 'swapdb', 'debug', 'config|resetstat'] as const

/**
 * Shows the section `commandstats` of INFO that nothing was deleted as a whole since the server's start? A command that was refused is
 * counted, too, but not as a call. Keys deleted by name do not show: no marker speaks for a single key.
 */
export function nothingDeleted(stats: ReadonlyMap<string, string>): boolean {
  const counts = [...stats.keys()].some((field) => field.startsWith('cmdstat_'))
  return counts && !deleting.some((name) => /^calls=[1-9]/.test(stats.get(`cmdstat_${name}`) ?? ''))
}
