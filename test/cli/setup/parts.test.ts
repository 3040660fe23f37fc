// Parts of the set-up checks that need no server.
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { merged, ok, weak } from '../../../src/cli/setup/check.js'
import { encryptionCheck, isLocal } from '../../../src/cli/setup/encryption.js'
import { leakCheck } from '../../support/leaks.js'

describe('encryption', () => {
  it('is not required on the way to this machine, whatever the form of its address', () => {
    for (const host of ['127.0.0.1', '127.8.9.10:6379', '[::1]:6379', '::1', 'localhost', 'localhost:5432'])
      assert.equal(isLocal(host), true, host)
    for (const host of [
      '10.0.0.5',
      '128.0.0.1:1',
      '[fe80::1]:6379',
      'db.example',
      'localhost.example',
      '127.0.0.1.example',
    ])
      assert.equal(isLocal(host), false, host)
  })

  it('is reported as missing on the way to another machine, the more so with a password', () => {
    const hosts = ['127.0.0.1:6379', '10.0.0.5:6379']
    assert.equal(encryptionCheck({ hosts, secure: true, secret: true }).verdict, 'ok')
    assert.equal(encryptionCheck({ hosts: ['127.0.0.1'], secure: false, secret: true }).verdict, 'ok')
    const plain = encryptionCheck({ hosts, secure: false, secret: false })
    assert.equal(plain.verdict, 'weak')
    assert.equal(plain.found, 'none on the way to 10.0.0.5:6379')
    assert.doesNotMatch(plain.means ?? '', /password/)
    const secret = encryptionCheck({ hosts, secure: false, secret: true })
    assert.match(secret.means ?? '', /read the password/)
    assert.match(secret.remedy ?? '', /\?tls=true/)
  })
})

describe('the checks of several servers', () => {
  it('are said once where all agree, and by their server where not, in the order of each', () => {
    const version = ok('version', '7')
    const doubt = weak('eviction', 'allkeys', 'means', 'remedy')
    const sound = ok('eviction', 'none')
    const rights = ok('rights', 'all')
    const servers = new Map([
      ['a', [version, sound, rights]],
      ['b', [version, doubt, rights]],
      ['c', [version, sound, rights]],
    ])
    assert.deepEqual(merged(servers), [
      version,
      { ...sound, what: 'eviction of a, c' },
      { ...doubt, what: 'eviction of b' },
      rights,
    ])
  })
})

after(leakCheck)
