/** `mysql()`, strategy `session`, on MariaDB: all `GET_LOCK`s of a process on one connection. */
import { mysqlLab } from '../mysql-lab.js'
import type { LabDriver } from '../store.js'

export const lab: LabDriver = mysqlLab({
  about: 'mysql: GET_LOCK of one MariaDB server, one connection for each process',
  flavour: 'mariadb',
  library: 'mysql2',
  strategy: 'session',
  leastTtl: 1_000,
})
