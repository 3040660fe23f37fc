/** Three nodes campaign. Everybody sees the leader; before it is stopped, the leader hands over to a node that it names. */
import assert from 'node:assert/strict'
import { createLocks } from 'holdfast'
import { memory } from 'holdfast/memory'

const store = memory()
const nodes = ['ada', 'ben', 'cleo'].map((candidate) => ({ candidate, locks: createLocks(store) }))
const [ada, ben, cleo] = nodes.map(({ candidate, locks }) => {
  const election = locks.election('scheduler')
  return { election, campaign: () => election.campaign(`http://${candidate}:8080`, { candidate }) }
})
assert.ok(ada && ben && cleo)

const leads = await ada.campaign()
const [bens, cleos] = [ben.campaign(), cleo.campaign()]
console.log('leads:', (await cleo.election.leader())?.value, ', and knows it at once:', ada.election.isLeader)

// Both must be in the queue before one of them can be named.
while ((await nodes[0]?.locks.inspect('scheduler'))?.waiters.length !== 2) await undefined
assert.equal(await leads.handOver('cleo'), true)
for await (const leader of ben.election.observe()) {
  console.log('leads now:', leader.value, 'with token', leader.token)
  assert.equal(leader.candidate, 'cleo')
  break
}
await (await cleos).resign()
await (await bens).resign()
for (const { locks } of nodes) await locks.close()
