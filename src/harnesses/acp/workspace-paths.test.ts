import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { workspacePaths } from './workspace-paths.ts'

const HOST = '/srv/projects/parser'
const INSIDE = '/workspace/home/project'
const paths = workspacePaths(HOST, INSIDE)

const name = fc.stringMatching(/^[a-z][\w. äß-]{0,8}$/)
const step = fc.oneof(name, fc.constantFrom('..', '.', '', '...', '~', '%2e%2e', 'etc'))

describe('the names of a workspace', () => {
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

  it('never lead out of the folder, however they are put together', () => {
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

  it('are each other’s', () => {
    fc.assert(
      fc.property(fc.array(name, { maxLength: 5 }), (steps) => {
        const host = [HOST, ...steps].join('/')
        expect(paths.toHost(paths.toInside(host)!)).toBe(host)
        const uri = new URL(`file://${encodeURI(host)}`).href
        expect(paths.uriToHost(paths.uriToInside(uri)!)).toBe(uri)
      }),
    )
  })

  it('are found in words, and nothing like them is', () => {
    expect(paths.textToHost(`Read ${INSIDE}/a.ts, then '${INSIDE}' and (${INSIDE}/b)`)).toBe(
      `Read ${HOST}/a.ts, then '${HOST}' and (${HOST}/b)`,
    )
    for (const other of [`${INSIDE}-other/a`, `/x${INSIDE}/a`, `${INSIDE}/../../etc/passwd`, `${INSIDE}.old`])
      expect(paths.textToHost(other)).toBe(other)
    expect(paths.textToInside(`cat ${HOST}/a.ts`)).toBe(`cat ${INSIDE}/a.ts`)
  })

  it('keep the lines that an address names', () => {
    expect(paths.uriToHost(`file://${INSIDE}/a%20b.ts#L3:7`)).toBe(`file://${HOST}/a%20b.ts#L3:7`)
    for (const uri of ['file:///etc/passwd', `file://elsewhere${INSIDE}/a`, `vscode://file${INSIDE}/a`, 'x'])
      expect(paths.uriToHost(uri)).toBeUndefined()
  })

  it('are none on the host where there is no folder', () => {
    const none = workspacePaths(null, INSIDE)
    expect([none.toHost(INSIDE), none.toInside('/'), none.uriToHost(`file://${INSIDE}`)]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
    expect(none.textToHost(`${INSIDE}/a`)).toBe(`${INSIDE}/a`)
  })
})
