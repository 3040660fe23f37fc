/**
 * The command of a `holdfast run` in the fault run. Its claim lasts from its first instruction to its last one: it writes every few
 * milliseconds that it still runs, so the checkers find any other process that is granted the lock meanwhile.
 *
 * Usage: guarded-command.js HISTORY ATTEMPT MILLISECONDS
 */
import { recorder, watchStarvation } from 'holdfast/verify'

const beatEvery = 2

const [history = '', attempt = '', duration = '0'] = process.argv.slice(2)
const about = { name: process.env['HOLDFAST_NAME'] ?? '', attempt }
const token = Number(process.env['HOLDFAST_TOKEN'])
const journal = recorder(history, { label: 'command' })

const unwatch = watchStarvation(journal)
journal.write({ op: 'acquire', phase: 'ok', mode: 'exclusive', token, until: journal.now(), ...about })
console.log('begun')
const beat = setInterval(
  () => journal.write({ op: 'renew', phase: 'ok', until: journal.now(), ...about }),
  beatEvery,
)
await new Promise((resolve) => setTimeout(resolve, Number(duration)))
clearInterval(beat)
unwatch()
journal.write({ op: 'release', phase: 'invoke', until: journal.now(), ...about })
journal.close()
