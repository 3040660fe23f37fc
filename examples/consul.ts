/**
 * One of several instances leads; when it steps down the next one leads, and everybody can read which one. Needs Consul at CONSUL_URL.
 */
import assert from 'node:assert/strict'
import { createLocks } from 'holdfast'
import { consul } from 'holdfast/consul'

const url = process.env['CONSUL_URL'] ?? 'http://127.0.0.1:8500'
// Consul accepts no session shorter than 10 s unless its servers are configured otherwise; the default ttl of 30 s is fine.
const [one, two] = [createLocks(consul({ url })), createLocks(consul({ url }))]

const term = await one.election('billing').campaign('http://10.0.0.1:8080', { candidate: 'one' })
const second = two.election('billing').campaign('http://10.0.0.2:8080', { candidate: 'two' })
assert.equal((await two.election('billing').leader())?.value, 'http://10.0.0.1:8080')

await term.resign()
const next = await second
console.log(`${next.candidate} leads now, with token ${next.token} after ${term.token}`)
assert.ok(next.token > term.token)
assert.equal((await one.election('billing').leader())?.candidate, 'two')
await next.resign()
await one.close()
await two.close()
