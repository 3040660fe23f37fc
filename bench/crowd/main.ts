// Crowds of waiters in stores, one line each.
//
//   npm run bench:crowds -- etcd consul          these stores; without words, all
//   npm run bench:crowds -- consul --waiters 20,300 --processes 1,4
import { parseArgs } from 'node:util'
import { measureCrowd } from './measure.js'
import { type StoreName, startStore, stores } from './stores.js'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    waiters: { type: 'string' },
    processes: { type: 'string', default: '1,4' },
    fair: { type: 'string', default: 'fair,default' },
  },
})
const numbers = (text: string) => text.split(',').map(Number)
const unknown = positionals.find((word) => !stores.includes(word as StoreName))
if (unknown !== undefined) throw new RangeError(`name stores: ${stores.join(', ')}; got '${unknown}'`)
const chosen = positionals.length === 0 ? stores : (positionals as StoreName[])

console.log(
  '| store | waiters | processes | | in the queue after ms | requests each | idle: requests/s | % of a core | hand-overs | ms | requests each | aborted: another name, ms | all gone, ms |',
)
console.log('|---|---|---|---|---|---|---|---|---|---|---|---|---|')
for (const name of chosen) {
  const all = numbers(values.waiters ?? (name === 'consul' ? '20,300' : '20,300,1000'))
  for (const how of values.fair.split(',')) {
    for (const processes of numbers(values.processes)) {
      for (const waiters of all) {
        await using store = await startStore(name)
        const seen = await measureCrowd(name, store, { waiters, processes, fair: how === 'fair' })
        const ms = (value: number) => value.toFixed(0)
        const each = (value: number) => value.toFixed(1)
        const cells = [name, waiters, processes, how, `${seen.queued} after ${ms(seen.entering)}`]
        cells.push(each(seen.toEnter), each(seen.idle), each(seen.busy), seen.grants, ms(seen.took))
        cells.push(each(seen.toPass), ms(seen.another), ms(seen.left))
        console.log(`| ${cells.join(' | ')} |`)
        for (const error of seen.errors) console.error(error)
      }
    }
  }
}
process.exit()
