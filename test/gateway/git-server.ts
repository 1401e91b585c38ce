/** A server for git's smart HTTP protocol, based on git's own `http-backend`. */
import { execFileSync, spawn } from 'node:child_process'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'

/** Creates a bare repository `ada/engine.git` with one commit below `root`. */
export function makeRepository(root: string): void {
  const [bare, work] = [join(root, 'ada/engine.git'), join(root, 'work')]
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=ada', '-c', 'user.email=ada@craik.invalid', ...args], {
      stdio: 'ignore',
      env: { PATH: process.env.PATH, HOME: root },
    })
  git('init', '--bare', '-b', 'main', bare)
  git('-C', bare, 'config', 'http.receivepack', 'true')
  git('init', '-b', 'main', work)
  git('-C', work, 'commit', '--allow-empty', '-m', 'first')
  git('-C', work, 'push', bare, 'main')
}

export function serveGit(root: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://git.invalid')
  const { headers } = request
  const child = spawn('git', ['http-backend'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: {
      PATH: process.env.PATH,
      HOME: root,
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: '1',
      GIT_CONFIG_COUNT: '1',
      GIT_CONFIG_KEY_0: 'safe.directory',
      GIT_CONFIG_VALUE_0: '*',
      REMOTE_USER: 'ada',
      PATH_INFO: pathname,
      QUERY_STRING: searchParams.toString(),
      REQUEST_METHOD: request.method ?? 'GET',
      CONTENT_TYPE: headers['content-type'] ?? '',
      ...(headers['content-encoding'] && { HTTP_CONTENT_ENCODING: headers['content-encoding'] }),
      ...(headers['git-protocol'] && { GIT_PROTOCOL: String(headers['git-protocol']) }),
    },
  })
  request.pipe(child.stdin)
  child.stdin.on('error', () => {})
  const pieces: Buffer[] = []
  child.stdout.on('data', (piece: Buffer) => pieces.push(piece))
  child.on('close', () => {
    const whole = Buffer.concat(pieces)
    const end = whole.indexOf('\r\n\r\n')
    const lines = whole.subarray(0, end).toString('latin1').split('\r\n')
    const pairs = lines.map((line) => line.split(': ') as [string, string])
    const status = Number(pairs.find(([name]) => name === 'Status')?.[1]?.slice(0, 3) ?? 200)
    response.writeHead(status, Object.fromEntries(pairs.filter(([name]) => name !== 'Status')))
    response.end(whole.subarray(end + 4))
  })
}
