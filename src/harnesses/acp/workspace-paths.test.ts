import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { workspacePaths } from './workspace-paths.ts'

const HOST = '/srv/projects/parser'
const INSIDE = '/workspace/home/project'
const paths = workspacePaths(HOST, INSIDE)

const name = fc.stringMatching(/^[a-z][\w. äß-]{0,8}$/)
const step = fc.oneof(name, fc.constantFrom('..', '.', '', '...', '~', '%2e%2e', 'etc'))

describe('workspace paths', () => {
  it.each([
    [`${INSIDE}/src/a.ts`, `${HOST}/src/a.ts`],
    [INSIDE, HOST],
    ['src/a.ts', `${HOST}/src/a.ts`],
    [`${INSIDE}/a/../b`, `${HOST}/b`],
    [`${INSIDE}/../b`, undefined],
    [`${INSIDE}-other/b`, undefined],
    ['/etc/passwd', undefined],
    [`${INSIDE}/a\u0000b`, undefined],
    [`${INSIDE}/a\nb`, undefined],
  ])('%s is %s on the host', (inside, host) => {
    expect(paths.toHost(inside)).toBe(host)
  })

  it('never lead out of the workspace, whatever their steps are', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), fc.boolean(), (steps, isAbsolute) => {
        const path = `${isAbsolute ? `${INSIDE}/` : ''}${steps.join('/')}`
        const host = paths.toHost(path)
        if (host !== undefined) {
          expect(`${host}/`.startsWith(`${HOST}/`)).toBe(true)
          expect(host.split('/')).not.toContain('..')
        }
        const uri = paths.uriToHost(`file://${isAbsolute ? '' : '/'}${path}`)
        if (uri !== undefined)
          expect(`${decodeURI(new URL(uri).pathname)}/`.startsWith(`${HOST}/`)).toBe(true)
      }),
    )
  })

  it('translate back to the original paths', () => {
    fc.assert(
      fc.property(fc.array(name, { maxLength: 5 }), (steps) => {
        const host = [HOST, ...steps].join('/')
        expect(paths.toHost(paths.toSandbox(host)!)).toBe(host)
        const uri = new URL(`file://${encodeURI(host)}`).href
        expect(paths.uriToHost(paths.uriToSandbox(uri)!)).toBe(uri)
      }),
    )
  })

  it('are replaced in text, but similar paths are not', () => {
    expect(paths.textToHost(`Read ${INSIDE}/a.ts, then '${INSIDE}' and (${INSIDE}/b)`)).toBe(
      `Read ${HOST}/a.ts, then '${HOST}' and (${HOST}/b)`,
    )
    for (const other of [`${INSIDE}-other/a`, `/x${INSIDE}/a`, `${INSIDE}/../../etc/passwd`, `${INSIDE}.old`])
      expect(paths.textToHost(other)).toBe(other)
    expect(paths.textToSandbox(`cat ${HOST}/a.ts`)).toBe(`cat ${INSIDE}/a.ts`)
  })

  it('keep the line number of a URI', () => {
    expect(paths.uriToHost(`file://${INSIDE}/a%20b.ts#L3:7`)).toBe(`file://${HOST}/a%20b.ts#L3:7`)
    for (const uri of ['file:///etc/passwd', `file://elsewhere${INSIDE}/a`, `vscode://file${INSIDE}/a`, 'x'])
      expect(paths.uriToHost(uri)).toBeUndefined()
  })

  it('have no host path when the folder is not on the host', () => {
    const none = workspacePaths(null, INSIDE)
    expect([none.toHost(INSIDE), none.toSandbox('/'), none.uriToHost(`file://${INSIDE}`)]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
    expect(none.textToHost(`${INSIDE}/a`)).toBe(`${INSIDE}/a`)
  })
})
