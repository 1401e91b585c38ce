/** CONNECT: opens a tunnel to a host that a rule allows. On port 443 it accepts only TLS for that host. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { GatewayCaller } from '../caller.ts'
import { type ClientHello, readHello } from './client-hello.ts'
import { type EgressConnection, type EgressConnections, isAnswer } from './egress-connections.ts'
import { isNameProblem, parseAuthority, parseHost } from './egress-destination.ts'
import { factsOf } from './egress-facts.ts'
import type { EgressLimits } from './egress-limits.ts'
import { answerStream, malformedRequest } from './egress-responses.ts'
import { type EgressRequest, HTTPS_PORT } from './rules.ts'
import { splice } from './splice.ts'

const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'
const CLEAN: readonly string[] = ['closed', 'client_gone']

export async function tunnel(
  connections: EgressConnections,
  limits: EgressLimits,
  caller: GatewayCaller,
  request: IncomingMessage,
  client: Duplex,
  head: Buffer,
): Promise<void> {
  const gone = new AbortController()
  client.on('error', () => gone.abort())
  client.once('close', () => gone.abort())
  const destination = parseAuthority(request.url ?? '')
  const hasBody =
    request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined
  if (isNameProblem(destination) || hasBody) {
    await connections.refuse(caller, factsOf('malformed'))
    answerStream(
      client,
      malformedRequest(
        isNameProblem(destination) ? destination.problem : 'a CONNECT request cannot have a body',
      ),
    )
    return
  }
  const requested: EgressRequest = { ...destination, protocol: 'connect' }
  const connection = await connections.open(caller, requested, gone.signal)
  if (isAnswer(connection)) {
    answerStream(client, connection)
    return
  }
  client.write(ESTABLISHED)
  const first =
    requested.port === HTTPS_PORT ? await helloFor(requested, connection, client, head, limits) : head
  if (first === undefined) return
  const { outcome, upBytes, downBytes } = await splice(
    client,
    connection.socket,
    first,
    limits,
    connection.until,
  )
  await connection.end({ status: CLEAN.includes(outcome) ? 'passed' : 'failed', outcome, upBytes, downBytes })
}

/** Returns the first bytes if they are TLS for the requested host. Otherwise it ends the connection. */
async function helloFor(
  requested: EgressRequest,
  connection: EgressConnection,
  client: Duplex,
  head: Buffer,
  { helloMs }: EgressLimits,
): Promise<Buffer | undefined> {
  const until = AbortSignal.any([connection.until, AbortSignal.timeout(helloMs)])
  const { hello, bytes } = await readHello(client, head, until)
  if (hello.is === 'tls' && isFor(hello, requested)) return bytes
  client.destroy()
  connection.socket.destroy()
  if (hello.is !== 'incomplete') {
    await connection.refuse('tls')
    return undefined
  }
  const outcome = connection.until.aborted ? 'ended' : until.aborted ? 'idle' : 'client_gone'
  await connection.end({ status: 'failed', outcome, upBytes: 0, downBytes: 0 })
  return undefined
}

/** A client hello without a name goes to the server at the checked address. */
function isFor({ name }: Extract<ClientHello, { is: 'tls' }>, { host }: EgressRequest): boolean {
  if (name === undefined) return true
  const named = parseHost(name)
  return !isNameProblem(named) && named.host === host
}
