// Curator's InterProcessMutex, told what to do by lines on stdin. See others.ts.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

public class CuratorMutex {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0]).sessionTimeoutMs(30_000).connectionTimeoutMs(60_000)
                .retryPolicy(new RetryOneTime(100)).build();
        client.start();
        client.blockUntilConnected();
        InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        say("ready");
        for (String line; (line = in.readLine()) != null;) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "acquire": mutex.acquire(); say("acquired"); break;
                case "try":
                    say(mutex.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS) ? "acquired" : "busy");
                    break;
                case "release": mutex.release(); say("released"); break;
                // Adds to the number in a file, each time under the lock, in steps that another holder would spoil.
                case "count":
                    for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                        mutex.acquire();
                        Path file = Path.of(words[2]);
                        int seen = Integer.parseInt(Files.readString(file).trim());
                        Thread.sleep(1);
                        Files.writeString(file, Integer.toString(seen + 1));
                        mutex.release();
                    }
                    say("counted");
                    break;
                case "rounds": {
                    long begin = System.nanoTime();
                    for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                        mutex.acquire();
                        mutex.release();
                    }
                    say("took " + (System.nanoTime() - begin) / 1e6);
                    break;
                }
                default: say("what");
            }
        }
        client.close();
    }

    private static void say(String what) {
        System.out.println(what);
        System.out.flush();
    }
}
