// The report of `holdfast verify` on stores that decide by majority: each setting that weakens locks is found on real servers, and sound ones
// are called so.
// Second tier because it starts clusters.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import type { Check } from '../../../src/cli/setup/check.js'
import { checkSetup } from '../../../src/cli/setup/setup.js'
import { leakCheck } from '../../support/leaks.js'
import { startConsul, startConsulCluster } from '../../support/servers/consul.js'
import { startEtcd, startEtcdCluster } from '../../support/servers/etcd.js'
import { startEnsemble, startZookeeper } from '../../support/servers/zookeeper.js'
import { until } from '../../support/until.js'

type Told = (what: string) => Check

async function look(url: string): Promise<{ readonly told: Told; readonly doubts: readonly string[] }> {
  const checks = await checkSetup(url)
  const told: Told = (what) => {
    const check = checks.find((one) => one.what === what)
    assert.ok(check !== undefined, `nothing was said of ${what}: ${checks.map((one) => one.what)}`)
    return check
  }
  return { told, doubts: checks.filter(({ verdict }) => verdict !== 'ok').map(({ what }) => what) }
}

const nobody = '127.0.0.1:1'
const hosts = (servers: readonly { readonly port: number }[]) =>
  servers.map(({ port }) => `127.0.0.1:${port}`)

describe('the set-up of etcd', () => {
  it('three members are sound but for being open; one that is named alone, or does not answer, is reported', async () => {
    await using cluster = await startEtcdCluster(3, { version: '3.4' })
    const members = hosts(cluster.servers)
    const { told, doubts } = await look(`etcd://${members}`)
    assert.deepEqual(doubts, ['access'])
    assert.match(told('version').found, /^etcd 3\.4\.\d+$/)
    assert.equal(told('servers').found, '3 servers decide, 1 of them may be down')
    assert.match((await look(`etcd://${members[0]}`)).told('addresses').found, /one of 3 servers is named/)
    const partly = await look(`etcd://${nobody},${members}`)
    assert.deepEqual(partly.doubts, ['addresses', 'access'])
    assert.match(partly.told('addresses').found, /no answer from 127\.0\.0\.1:1$/)
  })

  it('a single server, long elections, a database that is full', async () => {
    const slow = [
      '--heartbeat-interval',
      '500',
      '--election-timeout',
      '7000',
      '--quota-backend-bytes',
      '2000000',
    ]
    await using server = await startEtcd({ args: slow })
    const url = `etcd://127.0.0.1:${server.port}`
    assert.deepEqual((await look(url)).doubts, ['servers', 'least lease', 'access'])
    const value = Buffer.alloc(100_000).toString('base64')
    const fill = async () => {
      for (let i = 0; i < 100; i++) await server.ask('/v3/kv/put', { key: 'AA==', value })
    }
    await assert.rejects(fill(), /database space exceeded/)
    const { told } = await look(url)
    assert.equal(told('alarms').verdict, 'bad')
    assert.match(told('alarms').found, /NOSPACE/)
    assert.equal(told('room').verdict, 'weak')
    assert.equal(told('least lease').verdict, 'bad', 'a lease is refused, too')
  })

  it('one with logins is closed to strangers; a login without the right to write gets an error that says so', async () => {
    await using server = await startEtcd()
    await server.ask('/v3/auth/user/add', { name: 'root', password: 'pw' })
    await server.ask('/v3/auth/role/add', { name: 'root' })
    await server.ask('/v3/auth/user/grant', { user: 'root', role: 'root' })
    await server.ask('/v3/auth/enable', {})
    const at = `127.0.0.1:${server.port}`
    assert.deepEqual((await look(`etcd://root:pw@${at}`)).doubts, ['servers'])
    await server.ctl('--user', 'root:pw', 'user', 'add', 'app:pw')
    await server.ctl('--user', 'root:pw', 'role', 'add', 'mine')
    const grant = ['role', 'grant-permission', '--prefix=true', 'mine', 'readwrite', 'mine/']
    await server.ctl('--user', 'root:pw', ...grant)
    await server.ctl('--user', 'root:pw', 'user', 'grant-role', 'app', 'mine')
    const barred = (await look(`etcd://app:pw@${at}`)).told('rights')
    assert.equal(barred.verdict, 'bad')
    assert.match(barred.remedy ?? '', /grant-permission ROLE readwrite --prefix=true "holdfast\/"/)
    assert.equal((await look(`etcd://app:pw@${at}?prefix=mine/`)).told('rights').verdict, 'ok')
    await assert.rejects(look(`etcd://root:wrong@${at}`), /the login was refused/)
  })
})

describe('the set-up of Consul', () => {
  it('three servers are sound but for being open', async () => {
    await using cluster = await startConsulCluster(3)
    const { told, doubts } = await look(`consul://${hosts(cluster.servers)}?min-ttl=1s`)
    assert.deepEqual(doubts, ['access'])
    assert.equal(told('servers').found, '3 servers decide, 1 of them may be down')
    assert.equal(told('session_ttl_min').found, 'sessions of 1000 ms are accepted')
  })

  it('development mode, a least ttl that the servers refuse, an agent that does not answer', async () => {
    await using server = await startConsul({ ttlMin: '15s' })
    const url = `consul://127.0.0.1:${server.port}`
    const { told, doubts } = await look(url)
    assert.deepEqual(doubts, ['servers', 'persistence', 'session_ttl_min', 'access'])
    assert.deepEqual([told('persistence').verdict, told('session_ttl_min').verdict], ['bad', 'bad'])
    assert.match(told('session_ttl_min').found, /sessions of 10000 ms are refused, the least is 15s/)
    assert.equal((await look(`${url}?min-ttl=20s`)).told('session_ttl_min').verdict, 'ok')
    assert.match((await look(`${url},${nobody}`)).told('addresses').found, /no answer from 127\.0\.0\.1:1/)
    assert.deepEqual(await server.ask('GET', '/v1/session/list'), [], 'nothing is left behind')
  })

  it('ACLs: closed to strangers, and a token that may not read the agent is told what is hidden from it', async () => {
    const config = 'acl{enabled=true\ndefault_policy="deny"\ntokens{master="root"\nagent="root"}}'
    await using server = await startConsul({ config })
    const at = `127.0.0.1:${server.port}`
    // A new leader makes the tokens of its configuration after it has said that it leads.
    const asRoot = (path: string) =>
      fetch(`http://${at}/v1/${path}`, { headers: { 'X-Consul-Token': 'root' } })
    await until(async () => {
      const answers = await Promise.all(['acl/token/self', 'agent/self'].map(asRoot))
      await Promise.all(answers.map((answer) => answer.text()))
      return answers.every(({ ok }) => ok)
    })
    const { told } = await look(`consul://:root@${at}?min-ttl=1s`)
    assert.deepEqual(
      ['access', 'rights', 'session_ttl_min'].map((what) => told(what).verdict),
      ['ok', 'ok', 'ok'],
    )
    const stranger = await look(`consul://${at}?min-ttl=1s`)
    assert.equal(stranger.told('persistence').verdict, 'not checked')
    assert.match(stranger.told('session_ttl_min').remedy ?? '', /session:write/)
    assert.match(stranger.told('rights').remedy ?? '', /^key_prefix "holdfast\/" \{ policy = "write" \}/)
    await assert.rejects(look(`consul://:nobody@${at}`), /the token was refused: ACL not found/)
  })
})

describe('the set-up of ZooKeeper', () => {
  it('three servers are sound but for being open; one of them alone, or away, is reported', async () => {
    await using ensemble = await startEnsemble()
    const servers = hosts(ensemble.servers)
    const { told, doubts } = await look(`zookeeper://${servers}?sessionTimeout=10000`)
    assert.deepEqual(doubts, ['access'])
    assert.match(told('version').found, /^ZooKeeper 3\.\d+\.\d+$/)
    assert.equal(told('servers').found, '3 servers decide, 1 of them may be down')
    assert.match(told('leader').found, / leader/)
    assert.equal(told('session').verdict, 'ok')
    assert.match(
      (await look(`zookeeper://${servers[0]}`)).told('addresses').found,
      /one of 3 servers is named/,
    )
    const [away, other] = await ensemble.followers()
    await away?.kill9()
    const partly = await look(`zookeeper://${servers}`)
    assert.equal(partly.told('addresses').found, `no answer from ${away?.address}`)
    await other?.kill9()
    // The leader notices that nobody follows.
    const alone = async () => (await look(`zookeeper://${servers}`)).told('leader')
    await until(async () => (await alone()).verdict === 'bad', { within: 60_000, every: 200 })
  })

  it('a single server, a tick longer than the driver knows, session limits', async () => {
    await using server = await startZookeeper()
    const url = `zookeeper://${server.address}?sessionTimeout=10000`
    const { told, doubts } = await look(url)
    assert.deepEqual(doubts, ['servers', 'access'])
    assert.equal(told('session limits').found, 'sessions last 1000 to 10000 ms; 10000 ms are asked for')
    const other = await look(
      `zookeeper://me:pw@${server.address}?tickTime=200&sessionTimeout=20000&acl=creator`,
    )
    assert.deepEqual(other.doubts, ['servers', 'tickTime', 'session limits'])
    assert.equal(other.told('tickTime').verdict, 'bad')
    assert.match(other.told('session limits').found, /the 20000 ms that are asked for become 10000 ms/)
  })

  it('a server that says little is looked at as far as it goes', async () => {
    await using server = await startZookeeper({ config: ['4lw.commands.whitelist=srvr'] })
    const { told, doubts } = await look(`zookeeper://${server.address}`)
    assert.deepEqual(doubts, ['servers', 'tickTime', 'session limits', 'access'])
    assert.match(told('tickTime').remedy ?? '', /4lw\.commands\.whitelist=srvr,conf/)
  })
})

after(leakCheck)
