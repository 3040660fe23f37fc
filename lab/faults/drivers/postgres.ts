/** `postgres()`, strategy `row`: one server, a pool of pg in every process; every second process listens over a separate pool. */
import { postgresLab } from '../postgres-lab.js'
import type { LabDriver } from '../store.js'

export const lab: LabDriver = postgresLab({
  about: 'postgres: rows of one server, a pool of pg in every process',
  strategy: 'row',
})
