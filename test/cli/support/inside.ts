// A command for `holdfast run` that writes down that it is inside, every other millisecond, until it is ended; so does a child that it
// starts. Both ignore TERM when asked to. In the history its claim lasts from its first instruction to its last word, so the exclusion
// checker finds any two commands that were alive at the same time.
//
// Usage: inside.js HISTORY MILLISECONDS [stubborn] [alone]
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { recorder } from 'holdfast/verify'

const [history = '', duration = '0', ...flags] = process.argv.slice(2)
const attempt = `token ${process.env.HOLDFAST_TOKEN}`
const about = { name: process.env.HOLDFAST_NAME ?? '', attempt }
const notes = recorder(history, { label: 'command' })
const child = flags.includes('child')

if (flags.includes('stubborn')) process.on('SIGTERM', () => undefined)
if (!child) {
  notes.write({ op: 'acquire', phase: 'invoke', mode: 'exclusive', ...about })
  notes.write({
    op: 'acquire',
    phase: 'ok',
    mode: 'exclusive',
    token: Number(process.env.HOLDFAST_TOKEN),
    until: notes.now(),
    ...about,
  })
}
const started =
  child || flags.includes('alone')
    ? undefined
    : fork(fileURLToPath(import.meta.url), [history, '1e9', 'child', ...flags])

const beat = setInterval(() => notes.write({ op: 'renew', phase: 'ok', until: notes.now(), ...about }), 2)
await new Promise((resolve) => setTimeout(resolve, Number(duration)))
if (started !== undefined) {
  started.kill('SIGKILL')
  await once(started, 'exit')
}
clearInterval(beat)
notes.write({ op: 'release', phase: 'invoke', ...about })
notes.write({ op: 'release', phase: 'ok', ...about })
process.exit()
