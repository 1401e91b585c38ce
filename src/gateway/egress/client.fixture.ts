/** A client of the proxy that behaves like a program in a sandbox. */
import { connect, type Socket } from 'node:net'
import { type TLSSocket, connect as tlsConnect } from 'node:tls'

/** Opens one tunnel. Returns the stream after a 200, or the error response. */
export function openTunnel(
  port: number,
  authority: string,
  first = '',
): Promise<{ socket: Socket; answer: string }> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port })
    socket.once('error', reject)
    socket.once('connect', () =>
      socket.write(
        Buffer.from(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n${first}`, 'latin1'),
      ),
    )
    let answer = ''
    const take = (chunk: Buffer) => {
      answer += chunk.toString('latin1')
      const [head, ...rest] = answer.split('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(head!)?.[1] ?? 0)
      if (rest.length === 0 || rest.join('\r\n\r\n').length < length) return
      socket.off('data', take)
      socket.pause()
      socket.off('error', reject)
      socket.on('error', () => {})
      resolve({ socket, answer })
    }
    socket.on('data', take)
    socket.once('close', () => resolve({ socket, answer }))
  })
}

export async function openTls(port: number, host: string, servername = host): Promise<TLSSocket> {
  const { socket, answer } = await openTunnel(port, `${host}:443`)
  if (!answer.startsWith('HTTP/1.1 200 ')) throw new Error(answer)
  const secure = tlsConnect({ socket, servername, rejectUnauthorized: false })
  secure.on('error', () => {})
  await new Promise((resolve, reject) => {
    secure.once('secureConnect', resolve)
    secure.once('close', () => reject(new Error('closed')))
  })
  return secure
}

/** Reads until the other side ends or breaks the connection. */
export function readSocket(stream: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    stream.on('data', (chunk) => {
      text += chunk.toString('latin1')
    })
    stream.once('close', () => resolve(text))
    stream.on('error', () => {})
    stream.resume()
  })
}

/** Sends one plain HTTP request and reads to the end of the connection. */
export async function requestThroughProxy(port: number, head: string, body = ''): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port })
  socket.write(`${head}Connection: close\r\n\r\n${body}`)
  return readSocket(socket)
}

export function getUrl(port: number, url: string, more = ''): Promise<string> {
  return requestThroughProxy(port, `GET ${url} HTTP/1.1\r\nHost: ${new URL(url).host}\r\n${more}`)
}

export function waitForClose(stream: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (stream.destroyed) resolve()
    else stream.once('close', () => resolve()).resume()
  })
}
