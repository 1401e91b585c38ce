/** CONNECT: a tunnel to a host that a rule allows, and on the port of HTTPS only for TLS towards that host. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { GatewayCaller } from '../caller.ts'
import { answerStream, malformed } from './answers.ts'
import { type ClientHello, readHello } from './client-hello.ts'
import { type EgressConnection, type EgressConnections, isAnswer } from './connections.ts'
import { factsOf } from './facts.ts'
import type { EgressLimits } from './limits.ts'
import { isNameProblem, parseAuthority, parseHost } from './names.ts'
import { type EgressRequest, HTTPS_PORT } from './rules.ts'
import { splice } from './splice.ts'

const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'
const CLEAN: readonly string[] = ['closed', 'client_gone']

export async function tunnel(
  passages: EgressConnections,
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
    await passages.refuse(caller, factsOf('malformed'))
    answerStream(
      client,
      malformed(isNameProblem(destination) ? destination.problem : 'a CONNECT request cannot have a body'),
    )
    return
  }
  const asked: EgressRequest = { ...destination, protocol: 'connect' }
  const passage = await passages.open(caller, asked, gone.signal)
  if (isAnswer(passage)) {
    answerStream(client, passage)
    return
  }
  client.write(ESTABLISHED)
  const first = asked.port === HTTPS_PORT ? await helloFor(asked, passage, client, head, limits) : head
  if (first === undefined) return
  const { outcome, upBytes, downBytes } = await splice(client, passage.socket, first, limits, passage.until)
  await passage.end({ status: CLEAN.includes(outcome) ? 'passed' : 'failed', outcome, upBytes, downBytes })
}

/** The first bytes, once they are TLS for the host that was asked for; otherwise it is over. */
async function helloFor(
  asked: EgressRequest,
  passage: EgressConnection,
  client: Duplex,
  head: Buffer,
  { helloMs }: EgressLimits,
): Promise<Buffer | undefined> {
  const until = AbortSignal.any([passage.until, AbortSignal.timeout(helloMs)])
  const { hello, bytes } = await readHello(client, head, until)
  if (hello.is === 'tls' && isFor(hello, asked)) return bytes
  client.destroy()
  passage.socket.destroy()
  if (hello.is !== 'incomplete') {
    await passage.refuse('tls')
    return undefined
  }
  const outcome = passage.until.aborted ? 'ended' : until.aborted ? 'idle' : 'client_gone'
  await passage.end({ status: 'failed', outcome, upBytes: 0, downBytes: 0 })
  return undefined
}

/** Without a name it is for whoever answers at the address that was judged. */
function isFor({ name }: Extract<ClientHello, { is: 'tls' }>, { host }: EgressRequest): boolean {
  if (name === undefined) return true
  const named = parseHost(name)
  return !isNameProblem(named) && named.host === host
}
