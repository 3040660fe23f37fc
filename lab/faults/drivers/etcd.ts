/** `etcd()` on one server, over JSON. */
import { etcdAlone } from '../etcd-alone.js'
import type { LabDriver } from '../store.js'

export const lab: LabDriver = etcdAlone('JSON')
