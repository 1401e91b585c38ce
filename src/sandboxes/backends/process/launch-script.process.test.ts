import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestFolder } from '../../sandbox.fixture.ts'
import { instanceFolders, stagingFolders } from './instance-folders.ts'
import { buildLaunchCommand, type Staging } from './launch-script.ts'
import { findPrograms } from './required-programs.ts'
import { chooseStage } from './stage.ts'

let test: TestFolder
let staging: Staging
beforeEach(() => {
  test = new TestFolder()
  const folders = instanceFolders(test.path('one'))
  const { data, socket, runtime, workspace } = stagingFolders(folders.staged)
  const own = [folders.data, folders.socket, test.path('runtime'), test.path('project')]
  for (const path of [...own, data, socket, runtime, workspace]) mkdirSync(path, { recursive: true })
  writeFileSync(test.path('project/file'), 'chosen')
  const { dev, ino } = statSync(test.path('project'), { bigint: true })
  staging = {
    user: { uid: 12_345, gid: 12_345 },
    staged: folders.staged,
    stage: chooseStage([test.folder]),
    runtime: test.path('runtime'),
    harnesses: undefined,
    socket: folders.socket,
    disk: folders.data,
    isImage: false,
    workspace: { folder: test.path('project'), identity: `${dev}:${ino}` },
    volumes: [],
  }
})
afterEach(() => test[Symbol.dispose]())

function launch(staged: Staging | undefined, joinFiles: readonly string[], argv: readonly string[]) {
  const [program, ...args] = buildLaunchCommand(findPrograms(process.env), joinFiles, staged, argv)
  const { status, stdout, stderr } = spawnSync(program!, args, { encoding: 'utf8' })
  return { status, stdout, stderr }
}

describe('the launch script', () => {
  it('writes its own pid to each file that it must join, whatever the name of the file', () => {
    const files = ['a b', '$(touch c)', '--x'].map((name) => test.path(name))
    const { stdout } = launch(undefined, files, ['/bin/sh', '-c', 'echo $$'])
    expect(files.map((file) => readFileSync(file, 'utf8'))).toEqual(files.map(() => stdout.trim()))
  })

  if (process.getuid?.() === 0) {
    const show = () => ['/bin/sh', '-c', 'id -u; cat "$1/workspace/file"', 'sh', staging.stage]

    it('as root mounts the workspace and then becomes another user', () => {
      expect(launch(staging, [], show())).toEqual({ status: 0, stdout: '12345\nchosen', stderr: '' })
    })

    it('as root starts nothing when the workspace is not the checked folder', () => {
      renameSync(test.path('project'), test.path('moved'))
      mkdirSync(test.path('project'))
      writeFileSync(test.path('project/file'), 'another')
      expect(launch(staging, [], show())).toEqual({
        status: 1,
        stdout: '',
        stderr: 'the workspace was replaced while the sandbox started\n',
      })
    })

    it('as root does not wait for a pipe in place of the workspace', () => {
      renameSync(test.path('project'), test.path('moved'))
      spawnSync('mkfifo', [test.path('project')])
      const stderr = expect.stringContaining('cannot open')
      expect(launch(staging, [], show())).toMatchObject({ stdout: '', stderr })
    })
  }
})
