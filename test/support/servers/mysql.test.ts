// The servers of the MySQL family do what their handle says.
// Second tier because the servers of the tests seldom change.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { leakCheck } from '../leaks.js'
import { type Flavour, startMysql } from './mysql.js'

const version: Record<Flavour, RegExp> = { mariadb: /^10\.11\..*MariaDB/, mysql: /^9\./ }

describe('a server of the MySQL family', { concurrency: false }, () => {
  for (const flavour of ['mariadb', 'mysql'] as const) {
    it(`comes up as ${flavour}, stands still, moves its clock, keeps or forgets its data, and leaves nothing`, async () => {
      const server = await startMysql({ flavour, preload: ['clock'] })
      const [row] = await server.query('select version() as v')
      assert.match(String(row?.['v']), version[flavour])
      const [temporary] = await server.query('select @@tmpdir as place')
      assert.ok(
        String(temporary?.['place']).startsWith(server.folder),
        'servers that share it delete each other’s files',
      )
      await server.query('create table t (a int)')
      await server.kill9()
      assert.equal(server.running, false)
      await assert.rejects(server.query('select 1'), /ECONNREFUSED/)
      await server.restart()
      assert.deepEqual(await server.query('select * from t'), [])

      server.pause()
      const answer = server.query('select 1 as a')
      assert.equal(await Promise.race([answer, sleep(100, 'nothing')]), 'nothing')
      server.resume()
      assert.equal((await answer)[0]?.['a'], 1)

      server.clockJump(3_600_000)
      const [ahead] = await server.query(`select timestampdiff(second, '1970-01-01', utc_timestamp()) as s`)
      assert.ok(Math.abs(Number(ahead?.['s']) - Date.now() / 1000 - 3600) < 60, String(ahead?.['s']))

      await server.restart({ keepData: false })
      await assert.rejects(server.query('select * from t'), /doesn't exist/)
      await server.stop()
      assert.equal(existsSync(server.folder), false)
    })
  }
})

after(leakCheck)
