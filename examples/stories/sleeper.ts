/** Started by run-story.ts: one worker that is stopped between reading and writing. */
import { once } from 'node:events'
import { openHost, shortTtl, stories } from './run-story.js'
import type { Mode } from './story.js'

const [, , url = '', name = '', mode = ''] = process.argv
const story = stories[name]
if (story === undefined) throw new RangeError(`no story ${name}`)
const host = openHost(url, 'the host that was stopped', shortTtl)
const pause = async () => {
  const goOn = once(process, 'message')
  process.send?.('has read')
  await goOn
}
let code: unknown
try {
  await story.work(host, mode as Mode, 0, pause)
} catch (error) {
  code = (error as { code?: unknown }).code ?? String(error)
}
process.send?.({ code })
await host.close()
process.disconnect()
