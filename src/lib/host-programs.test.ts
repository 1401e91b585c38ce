import {
  chmodSync,
  chownSync,
  lchownSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  addPins,
  findHostProgram,
  findNamedProgram,
  findPinnedInside,
  findRootProgram,
  HOST_PROGRAMS,
  hostPath,
  PINS_VARIABLE,
  pinPrograms,
  resolveTrustedProgram,
} from './host-programs.ts'

const IS_ROOT = process.getuid?.() === 0
const SOMEBODY = 65_534
const SH = realpathSync('/bin/sh')

let folder: string
const at = (...names: readonly string[]) => join(folder, ...names)
const put = (path: string, content = '#!/bin/sh\n') => {
  mkdirSync(dirname(at(path)), { recursive: true, mode: 0o755 })
  writeFileSync(at(path), content, { mode: 0o755 })
  return at(path)
}
const findPath = (PATH: string, mounted: readonly string[] = []) =>
  findHostProgram('gh', { PATH }, mounted)?.argv.at(-1)

beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'craik-programs-')))
  chmodSync(folder, 0o755)
})
afterEach(() => rmSync(folder, { recursive: true }))

describe('a system program', () => {
  it('is found by its real path, whatever comes before it on the path', () => {
    put('bin/sh')
    expect(findRootProgram('sh', `${at('bin')}:/usr/bin:/bin`)).toBe(SH)
    expect(findRootProgram('sh', '/usr/bin/:/bin//')).toBe(SH)
  })

  it.each([undefined, '', '.', 'bin', 'usr/bin', '/nonexistent', '/usr/bin/../../tmp'])(
    'is not found when the path %j does not name a system folder',
    (path) => {
      expect(findRootProgram('sh', path)).toBeUndefined()
    },
  )

  it('is never found in a folder of a project', () => {
    put('bin/sh')
    expect(findRootProgram('sh', at('bin'))).toBeUndefined()
  })
})

describe('a user program', () => {
  it('is executed by its real path, and called by its name', () => {
    const real = put('opt/gh-2/gh')
    mkdirSync(at('.local/bin'), { recursive: true })
    symlinkSync('../../opt/gh-2/gh', at('.local/bin/gh'))
    expect(findHostProgram('gh', { PATH: `.:bin::${at('.local/bin')}` }, [])).toEqual({
      argv: [real],
      argv0: 'gh',
    })
  })

  const spoilt: Readonly<Record<string, (program: string) => void>> = {
    'anybody can write it': (program) => chmodSync(program, 0o757),
    'a group with others in it can write it': (program) => {
      chownSync(program, 0, SOMEBODY)
      chmodSync(program, 0o775)
    },
    'it belongs to somebody else': (program) => chownSync(program, SOMEBODY, SOMEBODY),
    'its folder belongs to somebody else': (program) => chownSync(dirname(program), SOMEBODY, SOMEBODY),
    'anybody can write its folder': (program) => chmodSync(dirname(program), 0o777),
    'anybody can write a folder above': () => chmodSync(at('a'), 0o777),
    'a folder above belongs to somebody else': () => chownSync(at('a'), SOMEBODY, SOMEBODY),
    'nobody may execute it': (program) => chmodSync(program, 0o644),
    'it is a folder': (program) => {
      rmSync(program)
      mkdirSync(program)
    },
    'its folder is node_modules/.bin': (program) => {
      mkdirSync(at('a/node_modules'))
      renameSync(dirname(program), at('a/node_modules/.bin'))
      symlinkSync(at('a/node_modules/.bin'), dirname(program))
    },
    'its folder is of a virtualenv': () => put('a/pyvenv.cfg'),
    'its interpreter can be written by anybody': (program) => {
      chmodSync(put('interpreter'), 0o777)
      writeFileSync(program, `#! ${at('interpreter')} -x\n`)
    },
    'its interpreter is of a virtualenv': (program) => {
      put('venv/pyvenv.cfg')
      writeFileSync(program, `#!${put('venv/bin/python')}\n`)
    },
    'its interpreter is missing': (program) => writeFileSync(program, `#!${at('nothing')}\n`),
  }

  it.skipIf(!IS_ROOT).each(Object.keys(spoilt))(
    'is refused when %s, and Craik uses the next one on PATH',
    (how) => {
      const program = put('a/first/gh')
      const next = put('b/gh')
      const PATH = `${at('a/first')}:${at('b')}`
      expect(findPath(PATH)).toBe(program)
      spoilt[how]!(program)
      expect(findPath(PATH)).toBe(next)
    },
  )

  it('is accepted in a sticky folder that everybody can write to, because nobody else can replace it there', () => {
    put('shared/gh')
    chmodSync(at('shared'), 0o1777)
    expect(findPath(at('shared'))).toBe(at('shared/gh'))
  })

  it.skipIf(!IS_ROOT)('is refused behind a link that another user put into a sticky folder', () => {
    put('own/gh')
    mkdirSync(at('shared'))
    chmodSync(at('shared'), 0o1777)
    symlinkSync(at('own/gh'), at('shared/gh'))
    expect(findPath(at('shared'))).toBe(at('own/gh'))
    lchownSync(at('shared/gh'), SOMEBODY, SOMEBODY)
    expect(findPath(at('shared'))).toBeUndefined()
  })

  describe('through a chain of links', () => {
    beforeEach(() => {
      put('real/gh')
      mkdirSync(at('middle'))
      mkdirSync(at('bin'))
      symlinkSync('../real', at('middle/current'))
      symlinkSync('../middle/current/gh', at('bin/gh'))
    })

    it('is found at its end', () => {
      expect(findPath(at('bin'))).toBe(at('real/gh'))
    })

    it.each(['bin', 'middle', 'real'])('is refused when anybody can write to the folder %s', (name) => {
      chmodSync(at(name), 0o777)
      expect(findPath(at('bin'))).toBeUndefined()
    })

    it.each(['bin', 'middle', 'real'])('is refused when %s is in a workspace', (name) => {
      expect(findPath(at('bin'), [at(name)])).toBeUndefined()
      symlinkSync(at(name), at('another-name'))
      expect(findPath(at('bin'), [at('another-name')])).toBeUndefined()
    })

    it('is refused when the links form a circle', () => {
      rmSync(at('real/gh'))
      symlinkSync(at('bin/gh'), at('real/gh'))
      expect(findPath(at('bin'))).toBeUndefined()
    })
  })

  it('is refused in a workspace, also when its folder is below the workspace', () => {
    put('project/tools/gh')
    expect(findPath(at('project/tools'))).toBe(at('project/tools/gh'))
    for (const workspace of ['project', 'project/tools', '.'])
      expect(findPath(at('project/tools'), [at(workspace)])).toBeUndefined()
    expect(findPath(at('project/tools'), [at('other'), '/nonexistent'])).toBe(at('project/tools/gh'))
  })

  it.skipIf(!IS_ROOT)('is refused for a user when the same file has another name', () => {
    process.seteuid?.(12_345)
    try {
      const own = mkdtempSync(join(tmpdir(), 'craik-programs-user-'))
      writeFileSync(join(own, 'gh'), '#!/bin/sh\n', { mode: 0o755 })
      expect(findPath(own)).toBe(join(own, 'gh'))
      linkSync(join(own, 'gh'), join(own, 'other'))
      expect(findPath(own)).toBeUndefined()
      rmSync(own, { recursive: true })
    } finally {
      process.seteuid?.(0)
    }
  })

  it('runs with Craik’s own Node when it is a Node script', () => {
    const npm = put('npm/bin/npm-cli.js', '#!/usr/bin/env node\n')
    mkdirSync(at('bin'))
    symlinkSync('../npm/bin/npm-cli.js', at('bin/npm'))
    expect(findHostProgram('npm', { PATH: at('bin') }, [])?.argv).toEqual([process.execPath, npm])
  })
})

describe('a pinned program', () => {
  it('is used although PATH names another one, for as long as the rule accepts it', () => {
    const first = put('first/gh')
    const second = put('second/gh')
    const pins = JSON.stringify(pinPrograms({ PATH: `${at('first')}:${at('second')}` }))
    const environment = { [PINS_VARIABLE]: pins, PATH: dirname(put('third/gh')) }
    const argv = (mounted: readonly string[] = []) => findHostProgram('gh', environment, mounted)?.argv
    expect(argv()).toEqual([first])
    expect(argv([at('first')])).toEqual([second])
    chmodSync(second, 0o777)
    expect(argv([at('first')])).toBeUndefined()
    expect(findHostProgram('npm', environment, [])).toBeUndefined()
  })

  it('stays when another one is offered, until it is removed', () => {
    const first = put('first/gh')
    const second = put('second/gh')
    const environment = { [PINS_VARIABLE]: JSON.stringify(pinPrograms({ PATH: at('first') })) }
    const readOffered = () => JSON.parse(addPins(environment, { gh: [second] })).programs.gh
    expect(readOffered()).toEqual([first])
    rmSync(first)
    expect(readOffered()).toEqual([second])
  })

  it('refuses a workspace that contains it, a link to it, or the package of its script', () => {
    put('opt/npm/bin/npm-cli.js', '#!/usr/bin/env node\n')
    put('opt/npm/package.json')
    mkdirSync(at('opt/npm/lib'))
    mkdirSync(at('links/deep'), { recursive: true })
    symlinkSync(at('opt/npm/bin/npm-cli.js'), at('links/deep/npm'))
    mkdirSync(at('project'))
    const environment = { PATH: at('links/deep') }
    for (const workspace of ['links', 'links/deep', 'opt', 'opt/npm', 'opt/npm/bin', 'opt/npm/lib', '.'])
      expect(findPinnedInside(at(workspace), environment, []), workspace).toBe('npm')
    expect(findPinnedInside(at('project'), environment, [])).toBeUndefined()
    // A sandbox can write to this folder already. Craik does not execute the program, so it refuses no workspace.
    expect(findPinnedInside(at('links'), environment, [at('links')])).toBeUndefined()
  })
})

describe('a program that the user registered', () => {
  it('is found by its path or its name, by the same rule', () => {
    const program = put('bin/pass-tool')
    const environment = {
      [PINS_VARIABLE]: JSON.stringify(pinPrograms({ PATH: at('bin') })),
      PATH: hostPath(),
    }
    for (const name of [program, 'pass-tool'])
      expect(findNamedProgram(name, environment, [])?.argv).toEqual([program])
    expect(findNamedProgram('pass-tool', environment, [folder])).toBeUndefined()
    chmodSync(program, 0o777)
    expect(findNamedProgram(program, environment, [])).toBeUndefined()
    expect(findNamedProgram('./bin/pass-tool', environment, [])).toBeUndefined()
  })

  it('is not found in folders of projects', () => {
    put('venv/pyvenv.cfg')
    put('venv/bin/tool')
    put('node_modules/.bin/tool')
    const PATH = `${at('venv/bin')}:${at('node_modules/.bin')}:relative:${at('missing')}`
    expect(pinPrograms({ PATH })).toEqual({ programs: {}, folders: [] })
    expect(findNamedProgram('tool', { PATH }, [])).toBeUndefined()
  })
})

it.skipIf(!IS_ROOT)('the rule for system programs accepts only root', () => {
  const program = put('bin/bwrap')
  expect(resolveTrustedProgram(program, 'root')?.real).toBe(program)
  chmodSync(program, 0o775)
  expect(resolveTrustedProgram(program, 'root')).toBeUndefined()
  chmodSync(program, 0o755)
  chownSync(program, 12_345, 0)
  process.seteuid?.(12_345)
  try {
    expect(resolveTrustedProgram(program, 'root')).toBeUndefined()
    expect(resolveTrustedProgram(program, 'root-or-user')?.real).toBe(program)
  } finally {
    process.seteuid?.(0)
  }
})

it('the PATH for programs has only system folders', () => {
  expect(hostPath().split(':')).toEqual(expect.arrayContaining(['/usr/bin']))
  expect(
    hostPath()
      .split(':')
      .every((one) => /^\/(usr\/(local\/)?)?s?bin$|^\/run\/current-system/.test(one)),
  ).toBe(true)
})

it('the table says for each program why Craik executes it', () => {
  for (const { why } of Object.values(HOST_PROGRAMS)) expect(why).toMatch(/^\p{L}/u)
})
