// A process that takes one lock, says so, and holds it until it is killed.
import { createLocks } from '../../../../src/create-locks.js'
import { etcd } from '../../../../src/drivers/etcd/index.js'

const [endpoints, name, ttl] = JSON.parse(process.argv[2] ?? '') as [string[], string, number]
const lease = await createLocks(etcd({ endpoints })).mutex(name).acquire({ ttl })
process.send?.({ token: lease.token })
process.on('disconnect', () => process.exit(0))
