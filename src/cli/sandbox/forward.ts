/** `craik sandbox forward`: forwards a port of the host to a port in a sandbox. */
import { createServer, type Server, type Socket } from 'node:net'
import { pipeline } from 'node:stream/promises'
import { Command } from 'commander'
import { CraikError } from '../../errors.ts'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'
import { formatOption, printable, printRecord } from '../output.ts'
import { reportError } from '../report-error.ts'
import { parsePorts } from './amounts.ts'
import { connect } from './connect-supervisor.ts'

/** Node closes connections above this number. */
const MAX_CONNECTIONS = 128
const LOOPBACK = '127.0.0.1'

const FORWARD_HELP = `
The order is the reverse of docker run -p. Craik listens on 127.0.0.1 only.

Example:
  craik sandbox forward parser 8080:3000
`

export function forwardCommand(context: CliContext): Command {
  return new Command('forward')
    .description('open a port of a sandbox on this machine, until Ctrl-C')
    .argument('<id>', 'id or name')
    .argument(
      '<port>',
      'PORT in the sandbox, or PORT:HOSTPORT; HOSTPORT is the port on this machine (default: a free one)',
    )
    .addOption(formatOption())
    .addHelpText('after', FORWARD_HELP)
    .action(async (id: string, portText: string, options: { readonly format?: string }) => {
      const ports = parsePorts(portText)
      using client = await connect(context)
      const sandbox = await client.sandboxes.get(id, { signal: context.signal })
      // Checks the port now, so that the user gets the error and not the first client.
      await client.sandboxes.checkPort(sandbox.id, ports.inside, { signal: context.signal })
      const server = serve(context, client, sandbox.id, ports.inside)
      const port = await listen(server, ports.host)
      const record = { sandbox: sandbox.id, name: sandbox.name, inside: ports.inside, host: LOOPBACK, port }
      printRecord(
        context,
        options,
        record,
        () =>
          `  forwarding  ${LOOPBACK}:${port} → ${printable(sandbox.name)}:${ports.inside}   (stop with Ctrl-C)\n`,
      )
      await waitForAbort(context.signal)
      server.close()
    })
}

function serve(context: CliContext, client: ApiClient, sandbox: string, port: number): Server {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
    join(context, client, sandbox, port, socket).catch(async (error) => {
      socket.destroy()
      // A connection that either side closes is not an error. A connection that cannot be opened is reported.
      if (error instanceof CraikError && !context.signal.aborted) await reportError(context, error)
    })
  })
  server.maxConnections = MAX_CONNECTIONS
  return server
}

async function join(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  port: number,
  socket: Socket,
): Promise<void> {
  const { signal } = context
  const inside = await client.sandboxes.connectPort(sandbox, port, { signal })
  await Promise.all([
    pipeline(socket, inside, { signal, end: true }),
    pipeline(inside, socket, { signal, end: true }),
  ])
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((done, fail) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      fail(
        new CraikError('usage', `cannot listen on port ${port} (${error.code})`, {
          hint: 'choose another host port, or omit the host port to use any free one',
          cause: error,
        }),
      ),
    )
    server.listen(port, LOOPBACK, () => {
      const address = server.address()
      done(typeof address === 'object' && address !== null ? address.port : port)
    })
  })
}

function waitForAbort(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) done()
    else signal.addEventListener('abort', () => done(), { once: true })
  })
}
