// What the members of a group say to each other goes through cables, to cut one member off from the others while its clients still reach it.
//
// Each member listens on 127.0.0.1, as ever, and is known to the others by an address of its own (all of 127.0.0.0/8 is this machine) with the same ports.
// There a front takes their connections and carries them on. The store knows one address for each member, so who is calling is looked up in /proc.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'

const own = '127.0.0.1'

export interface MemberCables {
  /** The address by which the others know member `n`, from 0. */
  address(n: number): string
  /** Takes what comes to that address for this port, and carries it to the member. */
  lay(n: number, port: number): Promise<void>
  /** Member `n`, a running process, neither hears the others nor is heard by them until what this returns is called. */
  isolate(n: number, pid: number): () => void
  /** Connections that carry something now, or did before they were cut. */
  readonly open: number
  stop(): Promise<void>
}

interface CarriedConnection {
  readonly to: number
  readonly caller: Socket
  /** Absent: it was begun while it was cut. */
  readonly member: Socket | undefined
  /** Bytes, or an end, were lost on it: nothing good can come of it any more. */
  broken: boolean
}

// Longer than a function should be: the verbs share what is carried and who is cut off.
export function memberCables(): MemberCables {
  const servers: Server[] = []
  const carried = new Set<CarriedConnection>()
  let isolated: { readonly n: number; readonly pid: number } | undefined
  /** Connections of the one that is cut off, and to it. */
  const cut = new Set<CarriedConnection>()

  const isCut = (one: CarriedConnection, ports: ReadonlySet<number>) =>
    one.to === isolated?.n || ports.has(one.caller.remotePort ?? 0)
  const end = (one: CarriedConnection) => {
    close(one.caller)
    if (one.member !== undefined) close(one.member)
    carried.delete(one)
    cut.delete(one)
  }
  const carry = (one: CarriedConnection, from: Socket, to: Socket | undefined) => {
    from.on('data', (bytes) => {
      if (cut.has(one) || to === undefined) one.broken = true
      else if (!to.write(bytes)) {
        from.pause()
        to.once('drain', () => from.resume())
      }
    })
    from.on('end', () => {
      if (cut.has(one) || to === undefined) one.broken = true
      else to.end()
    })
    from.on('error', () => undefined)
    from.on('close', () => {
      if (cut.has(one)) one.broken = true
      else end(one)
    })
  }
  const take = (to: number, port: number, caller: Socket) => {
    const dark =
      isolated !== undefined &&
      (to === isolated.n || listeningPorts(isolated.pid).has(caller.remotePort ?? 0))
    const member = dark ? undefined : connect({ host: own, port, allowHalfOpen: true, noDelay: true })
    const one: CarriedConnection = { to, caller, member, broken: dark }
    carried.add(one)
    if (dark) cut.add(one)
    carry(one, caller, member)
    if (member !== undefined) carry(one, member, caller)
  }
  return {
    address: (n) => `127.1.0.${n + 1}`,
    lay(n, port) {
      const server = createServer({ allowHalfOpen: true, noDelay: true }, (caller) => take(n, port, caller))
      servers.push(server)
      return new Promise((resolve, reject) => {
        server.once('error', reject)
        server.listen({ host: this.address(n), port }, resolve)
      })
    },
    isolate(n, pid) {
      if (isolated !== undefined) throw new Error(`member ${isolated.n} is cut off already`)
      isolated = { n, pid }
      const ports = listeningPorts(pid)
      for (const one of carried) if (isCut(one, ports)) cut.add(one)
      return () => {
        isolated = undefined
        for (const one of [...cut]) {
          cut.delete(one)
          if (one.broken) end(one)
        }
      }
    },
    get open() {
      return carried.size
    },
    async stop() {
      for (const one of [...carried]) end(one)
      await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
    },
  }
}

/** While its FIN is on the way Node loses a socket that is destroyed: done right after. */
function close(socket: Socket): void {
  const closing = socket.writableEnded && !socket.writableFinished && socket.writableLength === 0
  if (closing) socket.once('finish', () => socket.destroy())
  else socket.destroy()
}

/** The TCP ports on this machine that connections of a process begin at; none once it is dead. */
function listeningPorts(pid: number): ReadonlySet<number> {
  const sockets = new Set<string>()
  for (const file of socketFiles(pid)) {
    try {
      sockets.add(readlinkSync(`/proc/${pid}/fd/${file}`))
    } catch {
      // Closed since the folder was listed.
    }
  }
  const ports = new Set<number>()
  for (const line of readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)) {
    const [, local = '', , , , , , , , inode] = line.trim().split(/\s+/)
    if (sockets.has(`socket:[${inode}]`)) ports.add(Number.parseInt(local.split(':')[1] ?? '', 16))
  }
  return ports
}

function socketFiles(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`)
  } catch {
    return []
  }
}
