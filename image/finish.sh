#!/bin/sh
# What is done to a root file system when its packages are installed. Runs as root, on the host (mmdebstrap) or inside
# (Dockerfile); the folder is given, and nothing outside it is touched. Both ways end in the same files.
set -eu
here=$(dirname "$0")
root=$1
cd "$root"

# The user that a sandbox runs as, and the places that are mounted over.
grep -q '^agent:' etc/passwd || {
  echo 'agent:x:1000:1000:agent:/workspace/home:/bin/bash' >>etc/passwd
  echo 'agent:x:1000:' >>etc/group
  echo 'agent:!:20000:0:99999:7:::' >>etc/shadow
  [ ! -e etc/gshadow ] || echo 'agent:!::' >>etc/gshadow
}
mkdir -p workspace/home/project opt/craik var/spool/craik
chown 1000:1000 workspace/home workspace/home/project var/spool/craik
chmod 0755 workspace/home workspace/home/project opt/craik
chmod 0700 var/spool/craik
# Node is added later, with the sidecar. The one folder for temporary files has two names: the root is read-only.
ln -sfn /opt/craik/node usr/local/bin/node
rm -rf var/tmp
ln -s /tmp var/tmp
# Settings of the shell and of git come with Craik's own program.
for name in profile bash.bashrc gitconfig; do
  ln -sfn "/opt/craik/etc/$name" "etc/$name"
done
rm -f etc/passwd- etc/group- etc/shadow- etc/gshadow- etc/subuid- etc/subgid-

# Nothing is worth being installed or updated here.
for name in apt apt-get; do
  cp "$here/apt" "usr/bin/$name"
  chmod 0755 "usr/bin/$name"
done
rm -rf etc/apt/sources.list etc/apt/sources.list.d var/lib/apt/lists var/cache/apt
mkdir -p var/lib/apt/lists var/cache/apt

# No program gains rights by being started. Capabilities of files are attributes that find does not see.
find . -xdev \( -type f -o -type d \) -perm /6000 -exec chmod ug-s {} +
chroot . /usr/bin/python3 -I -c '
import os
for folder, inner, names in os.walk("/"):
    if folder == "/":
        inner[:] = [name for name in inner if name not in ("proc", "sys", "dev")]
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and not os.path.islink(path):
            try:
                os.removexattr(path, "security.capability")
            except OSError:
                pass
'

# What tells one machine or one build from another, and what nobody reads.
rm -f etc/machine-id var/lib/dbus/machine-id var/cache/ldconfig/aux-cache
rm -f var/cache/debconf/*-old var/lib/dpkg/*-old
rm -f etc/apt/apt.conf.d/99mmdebstrap etc/dpkg/dpkg.cfg.d/99mmdebstrap
find var/log -xdev -type f -delete
find usr/share/doc -xdev \( -type f -o -type l \) ! -name copyright -delete
find usr/share/doc -xdev -depth -type d -empty -delete
rm -rf usr/share/man usr/share/info usr/share/lintian usr/share/groff usr/share/bug
find usr/share/locale -xdev -mindepth 1 -maxdepth 1 -type d -exec rm -rf {} +
# mmdebstrap has its own settings there until it is done: without them its last steps would be about the host.
find tmp -xdev -mindepth 1 -maxdepth 1 ! -name 'mmdebstrap.*' -exec rm -rf {} +
rm -rf craik-image
# An engine mounts its own over them; while the Dockerfile runs it has done so.
: >etc/hostname
: >etc/resolv.conf
